{#-- For `dbt run-operation`. #}

{#-- dbt leaves the table of a model that went. This names such stream tables in the schemas of the project; with `drop: true` it
     drops them, readers first, and keeps what a model that is still there reads. What the project declares as a source stays. dbt
     shows no package the models that are disabled: `keep` names their tables. #}
{% macro drop_removed(drop=false, keep=[]) %}
  {% set models, schemas, left = streamtable.declared() | list, [], [] %}
  {% for name in ([keep] if keep is string else keep) %}
    {% do models.append(streamtable.key(name)) %}
  {% endfor %}
  {% for node in graph.nodes.values() if node.resource_type in ('model', 'seed', 'snapshot') and node.schema not in schemas %}
    {% do schemas.append(node.schema) %}
  {% endfor %}
  {% for schema in schemas %}
    {% for row in run_query('show stream tables in ' ~ streamtable.quoted(schema)).rows %}
      {% set name = streamtable.key(row['name']) %}
      {% if name not in models and not name.endswith('__dbt_backup') %}
        {% do left.append(name) %}
      {% endif %}
    {% endfor %}
  {% endfor %}
  {% if not drop %}
    {{ log('no model has: ' ~ (left | join(', ') or 'nothing is left'), info=true) }}
  {% else %}
    {% do streamtable.drop_all(left) %}
  {% endif %}
{% endmacro %}


{#-- Each round drops those that nobody reads any more. #}
{% macro drop_all(names) %}
  {% for round in range(names | length) %}
    {% for name in names | list if not streamtable.readers(name) %}
      {% do run_query('drop stream table if exists ' ~ streamtable.quoted(name)) %}
      {% do names.remove(name) %}
      {{ log('dropped ' ~ name, info=true) }}
    {% endfor %}
  {% endfor %}
  {% for name in names %}
    {{ log('kept ' ~ name ~ ', which is read by ' ~ streamtable.readers(name) | join(', '), info=true) }}
  {% endfor %}
{% endmacro %}
