{#-- What is there, and how it makes room. dbt-spark knows tables and views: the catalog of streamtable knows which table is a stream table. #}

{% macro is_stream_table(relation) %}
  {% if not execute or relation is none or relation.is_view %}
    {{ return(false) }}
  {% endif %}
  {% set rows = run_query('show stream tables in ' ~ streamtable.quoted(relation.schema) ~ ' like ' ~ streamtable.text(relation.identifier)).rows %}
  {{ return(rows | length > 0) }}
{% endmacro %}


{#-- The stream tables that read a relation, sources as `schema.name`. #}
{% macro readers(relation) %}
  {% set found = [] %}
  {% for row in run_query('show stream table dependencies').rows %}
    {% if row['kind'] != 'function' and streamtable.key(row['source']) == streamtable.key(relation | string) %}
      {% do found.append(row['name']) %}
    {% endif %}
  {% endfor %}
  {{ return(found) }}
{% endmacro %}


{#-- Schema and name in lower case, with or without the catalog. #}
{% macro key(name) %}
  {{ return((name | lower | replace('`', '')).split('.')[-2:] | join('.')) }}
{% endmacro %}


{#-- A name whose parts hold no dots, as it is written in SQL. #}
{% macro quoted(name) %}
  {% set parts = [] %}
  {% for part in (name | string | replace('`', '')).split('.') %}
    {% do parts.append(streamtable.name(part)) %}
  {% endfor %}
  {{ return(parts | join('.')) }}
{% endmacro %}


{% macro beside(relation, suffix) %}
  {{ return(relation.incorporate(path={'identifier': relation.identifier ~ suffix}, type='table')) }}
{% endmacro %}


{#-- Fill the new stream table beside what is there, which stays readable meanwhile; then let it have the name. #}
{% macro put_in_place(existing, target, clauses, query) %}
  {% if config.get('location_root') %}
    {{ exceptions.raise_compiler_error('stream_table: ' ~ target ~ ' cannot take the place of what is at its location_root; drop that first') }}
  {% endif %}
  {% set made = streamtable.beside(target, '__dbt_tmp') %}
  {% do run_query('drop table if exists ' ~ made) %} {#-- of a killed run, and of either kind #}
  {% do streamtable.answer(streamtable.create('create', made, clauses, query)) %}
  {% do streamtable.make_room(existing) %}
  {% do run_query('alter stream table ' ~ made ~ ' rename to ' ~ target) %}
{% endmacro %}


{#-- Free a name. A stream table that others read steps aside, under another name, which their queries are told. A property of it says
     that this package moved it: a table that merely has such a name is none of ours. #}
{% macro make_room(relation) %}
  {% if not streamtable.is_stream_table(relation) %}
    {% do adapter.drop_relation(relation) %}
  {% elif streamtable.readers(relation) %}
    {% set aside = streamtable.free_backup(relation) %}
    {% set mark = streamtable.properties({'dbt.backup': streamtable.key(aside | string)}) %}
    {% do run_query('alter stream table ' ~ relation ~ ' set ' ~ mark) %} {#-- before it has the name: a run may be killed in between #}
    {% do run_query('alter stream table ' ~ relation ~ ' rename to ' ~ aside) %}
    {% do adapter.cache_renamed(relation, aside) %}
    {{ log(relation ~ ' is read by ' ~ streamtable.readers(aside) | join(', ') ~ ', and is kept as ' ~ aside ~ ' until they are built again', info=true) }}
  {% else %}
    {% do run_query('drop stream table if exists ' ~ relation) %}
    {% do adapter.cache_dropped(relation) %}
  {% endif %}
{% endmacro %}


{#-- The first name for what steps aside that nothing has: a table of the user's own, or an earlier backup that is still read, stays. #}
{% macro free_backup(relation) %}
  {% set schema, free = streamtable.quoted(relation.schema), [] %}
  {% for suffix in ['__dbt_backup', '_2__dbt_backup', '_3__dbt_backup', '_4__dbt_backup', '_5__dbt_backup'] if not free %}
    {% set aside = streamtable.beside(relation, suffix) %}
    {% if not run_query('show tables in ' ~ schema ~ ' like ' ~ streamtable.text(aside.identifier)).rows %}
      {% do free.append(aside) %}
    {% endif %}
  {% endfor %}
  {% if not free %}
    {{ exceptions.raise_compiler_error('stream_table: ' ~ relation ~ ' is read, and cannot step aside: build its readers, or rename the tables ' ~ relation ~ '*__dbt_backup') }}
  {% endif %}
  {{ return(free[0]) }}
{% endmacro %}


{#-- Drop what stepped aside, once nobody reads it. #}
{% macro drop_unread_backups(schema) %}
  {% for row in run_query('show stream tables in ' ~ streamtable.quoted(schema) ~ " like '*__dbt_backup'").rows %}
    {% set aside = api.Relation.create(schema=schema, identifier=row['name'].split('.')[-1], type='table') %}
    {% if streamtable.is_backup(row['name']) and not streamtable.readers(aside) %}
      {% do run_query('drop stream table if exists ' ~ streamtable.quoted(row['name'])) %}
      {% do adapter.cache_dropped(aside) %}
    {% endif %}
  {% endfor %}
{% endmacro %}


{#-- Tell whether this package gave a stream table its name when it stepped aside. One that became a model since is none. #}
{% macro is_backup(name) %}
  {% set mark = run_query('show tblproperties ' ~ streamtable.quoted(name) ~ " ('dbt.backup')").rows %}
  {% set key = streamtable.key(name) %}
  {{ return(mark | length > 0 and mark[0]['value'] == key and key not in streamtable.declared()) }}
{% endmacro %}


{#-- The tables of the project: of its models, seeds, snapshots and sources. #}
{% macro declared() %}
  {% set found = [] %}
  {% for source in graph.sources.values() %}
    {% do found.append(streamtable.key(source.schema ~ '.' ~ source.identifier)) %}
  {% endfor %}
  {% for node in graph.nodes.values() if node.resource_type in ('model', 'seed', 'snapshot') %}
    {% do found.append(streamtable.key(node.schema ~ '.' ~ node.alias)) %}
  {% endfor %}
  {{ return(found) }}
{% endmacro %}
