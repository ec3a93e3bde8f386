{#-- Macros of dbt-spark that know of stream tables. A project takes them with `dispatch` in its dbt_project.yml. #}

{#-- A model that becomes a table of dbt's own: it is filled beside the stream table, and takes its name. #}
{% macro spark__create_table_as(temporary, relation, compiled_code, language='sql') %}
  {% if temporary or language != 'sql' or not streamtable.is_stream_table(load_cached_relation(relation)) %}
    {{ return(dbt.spark__create_table_as(temporary, relation, compiled_code, language)) }}
  {% endif %}
  {% set made = streamtable.beside(relation, '__dbt_tmp') %}
  {% do run_query('drop table if exists ' ~ made) %}
  {% do run_query(dbt.spark__create_table_as(false, made, compiled_code, language)) %}
  {% do streamtable.make_room(relation) %}
  {{ return('alter table ' ~ made ~ ' rename to ' ~ relation) }}
{% endmacro %}


{#-- A model that becomes a view. #}
{% macro spark__handle_existing_table(full_refresh, old_relation) %}
  {% do streamtable.make_room(old_relation) %}
{% endmacro %}
