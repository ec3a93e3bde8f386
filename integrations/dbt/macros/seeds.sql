{#-- dbt-spark drops a seed's table and makes it again, so that all above it is computed again. A Delta table of the same columns
     stays here: its rows are replaced in one commit, and stream tables see which of them changed. #}

{% macro spark__reset_csv_table(model, full_refresh, old_relation, agate_table) %}
  {% if full_refresh or not streamtable.keeps_columns(model, old_relation, agate_table) %}
    {{ return(dbt.spark__reset_csv_table(model, full_refresh, old_relation, agate_table)) }}
  {% endif %}
  {% if not agate_table.rows %}
    {% do run_query('delete from ' ~ old_relation) %}
  {% endif %}
  {{ return('') }}
{% endmacro %}


{#-- As that of dbt-spark, but the first batch of rows takes the place of what is there. #}
{% macro spark__load_csv_rows(model, agate_table) %}
  {% if config.get('file_format') != 'delta' %}
    {{ return(dbt.spark__load_csv_rows(model, agate_table)) }}
  {% endif %}
  {% set types = streamtable.seed_types(model, agate_table).values() %}
  {% set statements = [] %}
  {% for chunk in agate_table.rows | batch(get_batch_size()) %}
    {% set values, bindings = [], [] %}
    {% for row in chunk %}
      {% set cells = [] %}
      {% for type in types %}
        {% do cells.append('cast(' ~ get_binding_char() ~ ' as ' ~ type ~ ')') %}
      {% endfor %}
      {% do values.append('(' ~ cells | join(', ') ~ ')') %}
      {% do bindings.extend(row) %}
    {% endfor %}
    {% set words = 'insert overwrite' if loop.first else 'insert into' %}
    {% set sql = words ~ ' ' ~ this ~ ' values ' ~ values | join(',\n') %}
    {% do adapter.add_query(sql, bindings=bindings, abridge_sql_log=True) %}
    {% do statements.append(sql) %}
  {% endfor %}
  {{ return(statements[0]) }}
{% endmacro %}


{% macro seed_types(model, agate_table) %}
  {% set override, types = model['config'].get('column_types', {}), {} %}
  {% for name in agate_table.column_names %}
    {% do types.update({name: override.get(name, adapter.convert_type(agate_table, loop.index0))}) %}
  {% endfor %}
  {{ return(types) }}
{% endmacro %}


{% macro keeps_columns(model, relation, agate_table) %}
  {% if not relation.is_delta or config.get('file_format') != 'delta' or config.get('partition_by') %}
    {{ return(false) }}
  {% endif %}
  {% set there, wanted = [], [] %}
  {% for column in adapter.get_columns_in_relation(relation) %}
    {% do there.append(column.name | lower ~ ' ' ~ column.dtype | lower | replace(' ', '')) %}
  {% endfor %}
  {% for name, type in streamtable.seed_types(model, agate_table).items() %}
    {% do wanted.append(name | lower ~ ' ' ~ type | lower | replace(' ', '')) %}
  {% endfor %}
  {{ return(there == wanted) }}
{% endmacro %}
