{#-- What each row of a model is to meet: its expectations, and those constraints of dbt that are conditions. #}

{#-- As they stand in the list behind the name of the table. #}
{% macro expectations() %}
  {% set found, taken = [], [] %}
  {% for each in config.get('expectations') or [] %}
    {% do taken.append(each.name | string | lower) %}
    {% do found.append(streamtable.expectation(each.name, each.condition, streamtable.violation(each))) %}
  {% endfor %}
  {% set conditions = streamtable.constraints() | selectattr('type', 'in', ['check', 'not_null']) | list %}
  {% do taken.extend(conditions | map(attribute='name') | select | map('lower')) %}
  {% for each in conditions %}
    {% set name = each.name or streamtable.free_name((each.columns + [each.type]) | join('_') | replace('`', ''), taken) %}
    {% do taken.append(name | lower) %}
    {% do found.append(streamtable.expectation(name, streamtable.condition_of(each), 'fail update')) %}
  {% endfor %}
  {{ return(found) }}
{% endmacro %}


{% macro expectation(name, condition, violation) %}
  {% set words = 'constraint ' ~ streamtable.name(name | string) ~ ' expect ' ~ streamtable.condition(condition) %}
  {{ return(words ~ (' on violation ' ~ violation if violation else '')) }}
{% endmacro %}


{#-- What becomes of a row that fails: nothing for one that is kept and counted. #}
{% macro violation(expectation) %}
  {% set words = (expectation.on_violation or 'none') | string | lower %}
  {{ return('' if words in ('none', 'keep') else words) }}
{% endmacro %}


{#-- The constraints of the model and of its columns. #}
{% macro constraints() %}
  {% set found = [] %}
  {% for each in model.constraints | default([], true) %}
    {% do found.append({'type': each.type, 'name': each.name, 'expression': each.expression, 'columns': each.columns or []}) %}
  {% endfor %}
  {% for column in model.columns.values() %}
    {% for each in column.constraints | default([], true) %}
      {% do found.append({'type': each.type, 'name': each.name, 'expression': each.expression, 'columns': [column.name]}) %}
    {% endfor %}
  {% endfor %}
  {{ return(found) }}
{% endmacro %}


{#-- The condition of a constraint of the type `check` or `not_null`. #}
{% macro condition_of(constraint) %}
  {% if constraint.type == 'check' %}
    {{ return(constraint.expression) }}
  {% endif %}
  {% set conditions = [] %}
  {% for column in constraint.columns %}
    {% do conditions.append(streamtable.column(column) ~ ' is not null') %}
  {% endfor %}
  {{ return(conditions | join(' and ')) }}
{% endmacro %}


{% macro free_name(wanted, taken) %}
  {% for number in range(1, taken | length + 2) %}
    {% set name = wanted if number == 1 else wanted ~ '_' ~ number %}
    {% if name | lower not in taken %}
      {{ return(name) }}
    {% endif %}
  {% endfor %}
{% endmacro %}
