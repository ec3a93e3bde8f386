select customer_id, count(*) as orders, sum(amount) as spent, max(ordered_on) as last_order
from {{ ref('order_totals') }}
group by customer_id
