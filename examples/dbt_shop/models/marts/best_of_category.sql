select category, product, revenue, place
from (
  select *, row_number() over (partition by category order by revenue desc, product) as place
  from {{ ref('revenue_by_product') }}
)
where place = 1
