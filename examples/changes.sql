-- What each kind of change does to a stream table: the statements of docs/tutorial-changes.md, which says what each of them does.
--     streamtable run examples/changes.sql

CREATE TABLE orders (id INT, customer STRING, amount DECIMAL(10, 2)) USING delta;
CREATE STREAM TABLE customer_totals SCHEDULE '1m' REFRESH MODE DIFFERENTIAL AS
SELECT customer, sum(amount) AS total, count(*) AS order_count FROM orders GROUP BY customer;
INSERT INTO orders VALUES (1, 'alice', 49.99);
REFRESH STREAM TABLE customer_totals;
INSERT INTO orders VALUES (2, 'alice', 30.00), (3, 'bob', 75.00);
REFRESH STREAM TABLE customer_totals;
SELECT * FROM customer_totals ORDER BY customer;
REFRESH STREAM TABLE customer_totals;
UPDATE orders SET amount = 59.99 WHERE id = 1;
REFRESH STREAM TABLE customer_totals;
SELECT * FROM customer_totals ORDER BY customer;
UPDATE orders SET customer = 'bob' WHERE id = 2;
REFRESH STREAM TABLE customer_totals;
SELECT * FROM customer_totals ORDER BY customer;
UPDATE orders SET customer = 'bob' WHERE id = 1;
REFRESH STREAM TABLE customer_totals;
SELECT * FROM customer_totals ORDER BY customer;
UPDATE orders SET amount = 10.00 WHERE id = 3;
UPDATE orders SET amount = 30.00 WHERE id = 3;
INSERT INTO orders VALUES (4, 'charlie', 100.00);
UPDATE orders SET amount = 200.00 WHERE customer = 'charlie';
REFRESH STREAM TABLE customer_totals;
SELECT * FROM customer_totals ORDER BY customer;
UPDATE orders SET amount = 999.99 WHERE id = 3;
DELETE FROM orders WHERE id = 3;
INSERT INTO orders VALUES (5, 'dave', 200.00);
DELETE FROM orders WHERE customer = 'dave';
REFRESH STREAM TABLE customer_totals;
SELECT * FROM customer_totals ORDER BY customer;
DELETE FROM orders WHERE amount > 50;
REFRESH STREAM TABLE customer_totals;
SELECT c.*, h.rows_inserted, h.rows_deleted FROM customer_totals c, refresh_history('customer_totals', 1) h;
TRUNCATE TABLE orders;
INSERT INTO orders VALUES (6, 'charlie', 100.00), (7, 'charlie', 200.00), (8, 'dave', 150.00);
REFRESH STREAM TABLE customer_totals;
SELECT * FROM customer_totals ORDER BY customer;
CREATE TABLE customers (id INT, name STRING, tier STRING) USING delta;
CREATE TABLE purchases (id INT, customer_id INT, amount DECIMAL(10, 2)) USING delta;
INSERT INTO customers VALUES (1, 'alice', 'standard'), (2, 'bob', 'standard');
INSERT INTO purchases VALUES (1, 1, 50.00), (2, 1, 30.00), (3, 2, 75.00);
CREATE STREAM TABLE order_details REFRESH MODE DIFFERENTIAL AS
SELECT c.name, c.tier, p.amount FROM purchases p JOIN customers c ON p.customer_id = c.id;
UPDATE customers SET tier = 'premium' WHERE name = 'alice';
DELETE FROM purchases WHERE id = 2;
REFRESH STREAM TABLE order_details;
SELECT * FROM order_details ORDER BY name;
UPDATE purchases SET customer_id = 1 WHERE customer_id = 2;
DELETE FROM customers WHERE id = 2;
REFRESH STREAM TABLE order_details;
VERIFY STREAM TABLE order_details;
SELECT * FROM order_details ORDER BY amount;
