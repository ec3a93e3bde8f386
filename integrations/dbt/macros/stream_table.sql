{#-- A model that is a stream table: the engine refreshes it, and dbt says what it is. #}

{% materialization stream_table, adapter='spark' %}
  {% set existing = load_cached_relation(this) %}
  {% set target = this.incorporate(type='table') %}

  {{ run_hooks(pre_hooks) }}
  {% do streamtable.check_config(target) %}
  {% set query = streamtable.query(sql) %}
  {% do streamtable.build(existing, target, streamtable.clauses(query), query) %}
  {{ run_hooks(post_hooks) }}

  {{ return({'relations': [target]}) }}
{% endmaterialization %}


{#-- One of: create, refresh, change the definition, rebuild, put in the place of something else. #}
{% macro build(existing, target, clauses, query) %}
  {% if existing is none %}
    {% do streamtable.answer(streamtable.create('create', target, clauses, query)) %}
  {% elif not streamtable.is_stream_table(existing) %}
    {{ log('Applying REPLACE to: ' ~ target) }}
    {% do streamtable.put_in_place(existing, target, clauses, query) %}
  {% else %}
    {% set told = streamtable.told(target, clauses, query) %}
    {% set effect = told[-1]['reason'] %}
    {% set same, cheap = 'the definition is the same' in effect, 'only the definition' in effect %}
    {% if should_full_refresh() %}
      {{ log('Applying REPLACE to: ' ~ target) }}
      {% if not same %}
        {% do streamtable.replace(existing, target, clauses, query, told) %}
      {% endif %}
      {% if same or cheap %}
        {% do streamtable.answer('refresh stream table ' ~ target ~ ' full') %}
      {% endif %}
    {% elif same %}
      {{ log('Applying REFRESH to: ' ~ target) }}
      {% do streamtable.answer('refresh stream table ' ~ target) %}
    {% elif streamtable.may_change(target, effect) %}
      {{ log('Applying ' ~ ('ALTER' if cheap else 'REPLACE') ~ ' to: ' ~ target) }}
      {% do streamtable.replace(existing, target, clauses, query, told) %}
    {% endif %}
  {% endif %}
{% endmacro %}


{#-- Give a stream table another definition: in one commit, or beside it where its readers are in the way. A new table has none of the
     frozen rows, and no queue, publication or slot follows it. #}
{% macro replace(existing, target, clauses, query, told) %}
  {% set effect, holders = told[-1]['reason'], told | selectattr('operator', 'equalto', 'Held by') | map(attribute='reason') | list %}
  {% if 'refused' in effect and config.get('frozen_where') %}
    {{ exceptions.raise_compiler_error('stream_table ' ~ target ~ ': a table made beside it would lose its frozen rows: ' ~ effect) }}
  {% elif 'refused' in effect and holders %}
    {{ exceptions.raise_compiler_error('stream_table ' ~ target ~ ': a table made beside it would not be followed by ' ~ holders | join(', ') ~ '; drop these first: ' ~ effect) }}
  {% elif 'refused' in effect %}
    {% do streamtable.put_in_place(existing, target, clauses, query) %}
  {% else %}
    {% do streamtable.answer(streamtable.create('create or refresh', target, clauses, query)) %}
  {% endif %}
  {% do streamtable.drop_unread_backups(target.schema) %}
{% endmacro %}


{#-- Tell whether on_configuration_change lets a model have another definition. #}
{% macro may_change(target, effect) %}
  {% set wanted = config.get('on_configuration_change') or 'apply' %}
  {% set found = 'Configuration changes were identified and `on_configuration_change` was set to `' ~ wanted ~ '` for `' ~ target ~ '`' %}
  {% if wanted == 'fail' %}
    {{ exceptions.raise_fail_fast_error(found ~ ': ' ~ effect) }}
  {% elif wanted == 'continue' %}
    {{ exceptions.warn(found ~ ': ' ~ effect) }}
    {% do store_raw_result(name='main', message='skip ' ~ target, code='skip', rows_affected='-1') %}
  {% endif %}
  {{ return(wanted not in ('fail', 'continue')) }}
{% endmacro %}


{#-- What CREATE OR REPLACE would do to a stream table: the rows of EXPLAIN, of which the last one says so in a sentence. #}
{% macro told(target, clauses, query) %}
  {% set found = [] %}
  {% for row in run_query('explain ' ~ streamtable.create('create or replace', target, clauses, query)).rows %}
    {% do found.append({'operator': row['operator'], 'reason': row['reason']}) %}
  {% endfor %}
  {{ return(found) }}
{% endmacro %}


{#-- Carry out a statement that answers with what it did, and show the answer where dbt shows what a model did. #}
{% macro answer(statement) %}
  {% do write(statement) %}
  {% set done = run_query(statement).rows[0] %}
  {% set rows = (done['rows_inserted'] or 0) + (done['rows_deleted'] or 0) %}
  {{ log(done['name'] ~ ': ' ~ done['action'] ~ ', ' ~ done['reason']) }}
  {% set message = done['action'] ~ ' +' ~ (done['rows_inserted'] or 0) ~ ' -' ~ (done['rows_deleted'] or 0) %}
  {% do store_raw_result(name='main', message=message, code=done['action'], rows_affected=rows | int) %}
{% endmacro %}
