select p.category, p.product, sum(a.quantity) as sold, sum(a.amount) as revenue
from {{ ref('line_amounts') }} a
join {{ ref('stg_products') }} p on p.product_id = a.product_id
group by p.category, p.product
