{{ config(cluster_by=['region'], tblproperties={'team': "sales'"}) }}
select c.region, sum(o.amount) as revenue
from {{ ref('order_totals') }} o
join {{ ref('stg_customers') }} c on c.customer_id = o.customer_id
group by c.region
