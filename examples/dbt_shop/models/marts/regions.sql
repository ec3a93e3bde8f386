{{ config(materialized='materialized_view', schedule={'cron': '0 0 6 ? * MON-FRI', 'time_zone_value': 'Europe/Berlin'}) }}
select region, count(*) as customers from {{ ref('stg_customers') }} group by region
