{#-- The text of a model's statement. #}

{% macro create(words, target, clauses, query) %}
  {{ return(words ~ ' stream table ' ~ target ~ '\n' ~ clauses ~ '\nas\n' ~ query) }}
{% endmacro %}


{#-- The query; where the model has a contract, with the columns of the contract in their order. #}
{% macro query(sql) %}
  {% if config.get('contract').enforced %}
    {% do get_assert_columns_equivalent(sql) %}
    {{ return(get_select_subquery(sql)) }}
  {% endif %}
  {{ return(sql | trim) }}
{% endmacro %}


{#-- What stands between the name and AS. #}
{% macro clauses(query) %}
  {% set found = [] %}
  {% do found.append(streamtable.listed(query)) %}
  {% if config.get('trigger') %} {#-- the nearer one of the two cannot be told: a trigger goes before a schedule #}
    {% do found.append('trigger ' ~ config.get('trigger')) %}
  {% elif config.get('schedule') %}
    {% do found.append('schedule ' ~ streamtable.schedule(config.get('schedule'))) %}
  {% endif %}
  {% if config.get('refresh_mode') %}
    {% do found.append('refresh mode ' ~ config.get('refresh_mode')) %}
  {% endif %}
  {% if config.get('state') %}
    {% do found.append('state ' ~ config.get('state')) %}
  {% endif %}
  {% if config.get('frozen_where') %}
    {% do found.append('frozen where ' ~ streamtable.condition(config.get('frozen_where'))) %}
  {% endif %}
  {% do found.append(streamtable.columns('partitioned by', config.get('partition_by'))) %}
  {% do found.append(streamtable.columns('cluster by', config.get('cluster_by') or config.get('liquid_clustered_by'))) %}
  {% if config.persist_relation_docs() and model.description %}
    {% do found.append('comment ' ~ streamtable.text(model.description)) %}
  {% endif %}
  {% if config.get('location_root') %}
    {% do found.append('location ' ~ streamtable.text(config.get('location_root') ~ '/' ~ model.alias)) %}
  {% endif %}
  {% do found.append(streamtable.properties(config.get('tblproperties') or {})) %}
  {{ return(found | select | join('\n')) }}
{% endmacro %}


{% macro properties(wanted) %}
  {% set pairs = [] %}
  {% for key, value in wanted.items() %}
    {% do pairs.append(streamtable.text(key) ~ ' = ' ~ streamtable.text(value | lower if value is boolean else value)) %}
  {% endfor %}
  {{ return('tblproperties (' ~ pairs | join(', ') ~ ')' if pairs else '') }}
{% endmacro %}


{#-- What follows SCHEDULE. dbt-databricks spells it as a mapping, with `cron` and `time_zone_value`, `every`, or `on_update` and `at_most_every`. #}
{% macro schedule(wanted) %}
  {% if wanted is mapping %}
    {% if wanted.get('every') %}
      {{ return('every ' ~ wanted['every']) }}
    {% endif %}
    {% if wanted.get('on_update') %}
      {% set often = wanted.get('at_most_every') %}
      {{ return('on update' ~ (' at most every interval ' ~ streamtable.text(often) if often else '')) }}
    {% endif %}
    {% set zone = wanted.get('time_zone_value') %}
    {{ return('cron ' ~ streamtable.text(wanted['cron']) ~ (' at time zone ' ~ streamtable.text(zone) if zone else '')) }}
  {% endif %}
  {% set words = (wanted | lower).split() %}
  {% if words[0] in ('every', 'cron', 'calculated', 'on', 'immediate', 'manual') %}
    {{ return(wanted) }}
  {% endif %}
  {{ return(streamtable.text(wanted)) }}
{% endmacro %}


{#-- The columns with their descriptions, and what each row is to meet: one list in parentheses. #}
{% macro listed(query) %}
  {% set described = streamtable.described_columns(query) if config.persist_column_docs() and model.columns else [] %}
  {% set each = described + streamtable.expectations() %}
  {{ return('(' ~ each | join(', ') ~ ')' if each else '') }}
{% endmacro %}


{% macro described_columns(query) %}
  {% set described = {} %}
  {% for column in model.columns.values() if column.description %}
    {% do described.update({column.name | lower: column.description}) %}
  {% endfor %}
  {% set specs = [] %}
  {% for name in get_columns_in_query(query) %}
    {% set comment = described.get(name | lower) %}
    {% do specs.append(streamtable.name(name) ~ (' comment ' ~ streamtable.text(comment) if comment else '')) %}
  {% endfor %}
  {{ return(specs) }}
{% endmacro %}


{% macro columns(words, names) %}
  {% set quoted = [] %}
  {% for each in ([names] if names is string else names or []) %}
    {% do quoted.append(streamtable.column(each)) %}
  {% endfor %}
  {{ return(words ~ ' (' ~ quoted | join(', ') ~ ')' if quoted else '') }}
{% endmacro %}


{#-- A column as it is written in a configuration, with backticks or without. #}
{% macro column(written) %}
  {{ return(written if written.startswith('`') else streamtable.name(written)) }}
{% endmacro %}


{#-- A condition in parentheses. It may end with a comment, and that with a backslash, which takes the next line along. #}
{% macro condition(written) %}
  {{ return('(' ~ written ~ '\n\n)') }}
{% endmacro %}


{% macro name(column) %}
  {{ return('`' ~ column | replace('`', '``') ~ '`') }}
{% endmacro %}


{% macro text(value) %}
  {{ return("'" ~ value | string | replace('\\', '\\\\') | replace("'", "\\'") ~ "'") }}
{% endmacro %}
