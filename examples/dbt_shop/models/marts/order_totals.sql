select o.order_id, o.customer_id, o.ordered_on, o.status, sum(a.amount) as amount, count(*) as lines
from {{ ref('stg_orders') }} o
join {{ ref('line_amounts') }} a on a.order_id = o.order_id
group by o.order_id, o.customer_id, o.ordered_on, o.status
