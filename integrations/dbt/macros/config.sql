{#-- What a stream table cannot be is said before anything runs. #}

{% macro check_config(target) %}
  {% set wrong = streamtable.wrong_config() or streamtable.wrong_expectation() or streamtable.wrong_constraint() or streamtable.unknown_config() %}
  {% if wrong %}
    {{ exceptions.raise_compiler_error('stream_table ' ~ target ~ ': ' ~ wrong) }}
  {% endif %}
{% endmacro %}


{% macro wrong_config() %}
  {% if config.get('grants') %}
    {{ return('`grants` are not there: Spark has no rights on tables. Let in whom you would give them to, see docs/how-to/security.md') }}
  {% elif (config.get('file_format') or 'delta') != 'delta' %}
    {{ return('a stream table is a Delta table: leave out `file_format`, or make it delta') }}
  {% elif config.get('buckets') %}
    {{ return('`buckets` are not there: use `cluster_by`') }}
  {% endif %}
  {{ return('') }}
{% endmacro %}


{% macro wrong_expectation() %}
  {% set expectations = config.get('expectations') or [] %}
  {% if expectations is string or expectations is mapping %}
    {{ return('`expectations` is a list, each with `name`, `condition` and perhaps `on_violation`') }}
  {% endif %}
  {% for each in expectations %}
    {% set keys = each | list if each is mapping else [] %}
    {% set strange = keys | reject('in', ['name', 'condition', 'on_violation']) | join('`, `') %}
    {% if strange %}
      {{ return('an expectation has `name`, `condition` and `on_violation`, and no `' ~ strange ~ '`') }}
    {% elif each is not mapping or not each.name or not each.condition %}
      {{ return('an expectation needs a `name` and a `condition`, and one is: ' ~ each) }}
    {% elif streamtable.violation(each) not in ('', 'drop row', 'fail update') %}
      {{ return('`on_violation` of the expectation `' ~ each.name ~ '` is `none` (keep and count), `drop row` or `fail update`, and not `' ~ each.on_violation ~ '`') }}
    {% endif %}
  {% endfor %}
  {{ return('') }}
{% endmacro %}


{% macro wrong_constraint() %}
  {% for each in streamtable.constraints() %}
    {% if each.type == 'custom' %}
      {{ return('the constraint `custom` is not enforced: write its condition as a constraint `check`, or among the `expectations`') }}
    {% elif each.type in ('check', 'not_null') and not streamtable.condition_of(each) %}
      {{ return('a constraint `' ~ each.type ~ '` of the model needs ' ~ ('an `expression`' if each.type == 'check' else '`columns`')) }}
    {% endif %}
  {% endfor %}
  {{ return('') }}
{% endmacro %}


{#-- A key that dbt hands on and nobody reads: a word of others for one of ours, or one of ours with a slip in one letter. Other keys
     are the user's own. #}
{% macro unknown_config() %}
  {% set ours = ['schedule', 'trigger', 'refresh_mode', 'state', 'frozen_where', 'expectations', 'partition_by', 'cluster_by',
                 'liquid_clustered_by', 'tblproperties', 'on_configuration_change', 'location_root'] %}
  {% set others = {
      'schedules': 'schedule', 'refresh_schedule': 'schedule', 'refresh_interval': 'schedule', 'target_lag': 'schedule',
      'auto_refresh': 'schedule', 'refresh_policy': 'refresh_mode', 'frozen': 'frozen_where', 'freeze_where': 'frozen_where',
      'expect': 'expectations', 'checks': 'expectations', 'partitioned_by': 'partition_by', 'clustered_by': 'cluster_by',
      'auto_liquid_cluster': 'cluster_by', 'properties': 'tblproperties', 'table_properties': 'tblproperties', 'location': 'location_root'
  } %}
  {% for key, value in (model.config or {}).items() if value and key not in ours %}
    {% if key == 'constraints' %}
      {{ return('`constraints` stand beside `config` in the model\'s properties, or among the `expectations` of `config`') }}
    {% endif %}
    {% set meant = others.get(key) or streamtable.spelt_like(key, ours) | first %}
    {% if meant %}
      {{ return('there is no config `' ~ key ~ '`: write `' ~ meant ~ '`, or keep a key of your own under `meta`') }}
    {% endif %}
  {% endfor %}
  {{ return('') }}
{% endmacro %}


{#-- Those of the words that one letter more, less, other, or in another place makes of a key; short ones are too like others. #}
{% macro spelt_like(key, words) %}
  {% set found = [] %}
  {% for word in words if word | length > 5 %}
    {% for each in streamtable.without_a_letter(key | lower) if each in streamtable.without_a_letter(word) and word not in found %}
      {% do found.append(word) %}
    {% endfor %}
  {% endfor %}
  {{ return(found) }}
{% endmacro %}


{% macro without_a_letter(word) %}
  {% set found = [word] %}
  {% for place in range(word | length) %}
    {% do found.append(word[:place] ~ word[place + 1:]) %}
  {% endfor %}
  {{ return(found) }}
{% endmacro %}
