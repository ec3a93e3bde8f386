{#-- What a stream table cannot be is said before anything runs. #}

{% macro check_config(target) %}
  {% set wrong = namespace(text='') %}
  {% if config.get('grants') %}
    {% set wrong.text = '`grants` are not there: Spark has no rights on tables. Let in whom you would give them to, see docs/how-to/security.md' %}
  {% elif (config.get('file_format') or 'delta') != 'delta' %}
    {% set wrong.text = 'a stream table is a Delta table: leave out `file_format`, or make it delta' %}
  {% elif config.get('buckets') %}
    {% set wrong.text = '`buckets` are not there: use `cluster_by`' %}
  {% endif %}
  {% for constraint in streamtable.constraints() if constraint.type in ('check', 'not_null', 'custom') %}
    {% set wrong.text = 'the constraint `' ~ constraint.type ~ '` is not enforced: put the condition into the query, or test it with a data test' %}
  {% endfor %}
  {% if wrong.text %}
    {{ exceptions.raise_compiler_error('stream_table ' ~ target ~ ': ' ~ wrong.text) }}
  {% endif %}
{% endmacro %}


{#-- The constraints of the model and of its columns. #}
{% macro constraints() %}
  {% set found = model.constraints | default([], true) | list %}
  {% for column in model.columns.values() %}
    {% do found.extend(column.constraints | default([], true)) %}
  {% endfor %}
  {{ return(found) }}
{% endmacro %}
