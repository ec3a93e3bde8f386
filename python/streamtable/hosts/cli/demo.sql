-- Ordinary Delta tables.
CREATE TABLE departments (dept_id INT, department STRING) USING delta;
CREATE TABLE employees (name STRING, dept_id INT, salary DECIMAL(10, 2)) USING delta;
INSERT INTO departments VALUES (1, 'Research'), (2, 'Sales');
INSERT INTO employees VALUES ('Ada', 1, 5200.00), ('Ben', 1, 4100.00), ('Cleo', 2, 3900.00);

-- A query, kept as a table.
CREATE STREAM TABLE department_cost AS
SELECT department, count(*) AS headcount, sum(salary) AS cost
FROM employees JOIN departments USING (dept_id)
GROUP BY department;
SELECT * FROM department_cost ORDER BY department;

-- Its sources change, by whatever writes Delta.
UPDATE employees SET salary = 4500.00 WHERE name = 'Ben';

-- One group changed, so one row is rewritten.
REFRESH STREAM TABLE department_cost;
SELECT * FROM department_cost ORDER BY department;

-- Spark evaluates the query afresh, and compares.
VERIFY STREAM TABLE department_cost;
SHOW REFRESH HISTORY FOR department_cost;
