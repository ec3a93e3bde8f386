-- An org chart in three layers: the statements of docs/tutorials/org-chart.md, which says what each of them does.
--     streamtable run examples/org_chart.sql

CREATE TABLE departments (id INT, name STRING, parent_id INT) USING delta;
CREATE TABLE employees (id INT, name STRING, department_id INT, salary DECIMAL(10, 2)) USING delta;
INSERT INTO departments VALUES
  (1, 'Company', NULL), (2, 'Engineering', 1), (3, 'Sales', 1), (4, 'Operations', 1), (5, 'Backend', 2), (6, 'Frontend', 2), (7, 'Platform', 2);
INSERT INTO employees VALUES
  (1, 'Alice', 5, 120000), (2, 'Bob', 5, 115000), (3, 'Charlie', 6, 110000), (4, 'Diana', 7, 130000), (5, 'Eve', 3, 95000),
  (6, 'Frank', 3, 90000), (7, 'Grace', 4, 100000);
CREATE STREAM TABLE department_tree SCHEDULE CALCULATED REFRESH MODE DIFFERENTIAL AS
WITH RECURSIVE tree (id, name, parent_id, path, depth) AS (
  SELECT id, name, parent_id, name, 0 FROM departments WHERE parent_id IS NULL
  UNION ALL
  SELECT d.id, d.name, d.parent_id, tree.path || ' > ' || d.name, tree.depth + 1
  FROM departments d JOIN tree ON d.parent_id = tree.id
)
SELECT id, name, parent_id, path, depth FROM tree;
SELECT * FROM department_tree ORDER BY path;
CREATE STREAM TABLE department_stats SCHEDULE CALCULATED REFRESH MODE DIFFERENTIAL AS
SELECT t.id AS department_id, t.name AS department_name, t.path AS full_path, t.depth,
       count(e.id) AS headcount, coalesce(sum(e.salary), 0) AS total_salary, coalesce(avg(e.salary), 0) AS avg_salary
FROM department_tree t LEFT JOIN employees e ON e.department_id = t.id
GROUP BY t.id, t.name, t.path, t.depth;
SELECT department_name, full_path, headcount, total_salary FROM department_stats ORDER BY full_path;
CREATE STREAM TABLE department_report SCHEDULE '30s' REFRESH MODE DIFFERENTIAL AS
SELECT split_part(full_path, ' > ', 2) AS division, sum(headcount) AS total_headcount, sum(total_salary) AS total_payroll
FROM department_stats WHERE depth >= 1 GROUP BY 1;
SELECT * FROM department_report ORDER BY division;
INSERT INTO employees VALUES (8, 'Heidi', 6, 105000);
REFRESH STREAM TABLE department_report CASCADE;
SELECT department_name, headcount, total_salary FROM department_stats WHERE department_name = 'Frontend';
SELECT split_part(name, '.', 3) AS name, action, rows_inserted, rows_deleted FROM refresh_history() WHERE action = 'DIFFERENTIAL' ORDER BY name;
INSERT INTO departments VALUES (8, 'DevOps', 2);
REFRESH STREAM TABLE department_report CASCADE;
SELECT id, name, depth, path FROM department_tree WHERE name = 'DevOps';
UPDATE departments SET name = 'R&D' WHERE id = 2;
REFRESH STREAM TABLE department_report CASCADE;
SELECT name, path FROM department_tree WHERE path LIKE '%R&D%' ORDER BY depth, name;
SELECT rows_inserted, rows_deleted FROM refresh_history('department_tree', 1);
SELECT * FROM department_report ORDER BY division;
DELETE FROM employees WHERE name = 'Bob';
REFRESH STREAM TABLE department_stats;
SELECT department_name, headcount, total_salary, avg_salary FROM department_stats WHERE department_name = 'Backend';
SELECT split_part(name, '.', 3) AS name, staleness_seconds > 0 AS behind FROM staleness() ORDER BY name;
REFRESH STREAM TABLE department_report;
VERIFY STREAM TABLE department_tree;
VERIFY STREAM TABLE department_stats;
VERIFY STREAM TABLE department_report;
DROP STREAM TABLE department_tree CASCADE;
DROP TABLE employees;
DROP TABLE departments;
