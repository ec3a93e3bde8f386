{{ config(partition_by='ordered_on', refresh_mode='differential') }}
select ordered_on, sum(amount) as revenue, count(*) as orders
from {{ ref('order_totals') }}
where status = 'paid'
group by ordered_on
