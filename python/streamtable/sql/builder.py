"""The one place that spells generated SQL: sqlglot expressions in, Spark's text out; every identifier is quoted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator

__all__ = [
    "alias",
    "all_of",
    "any_of",
    "call",
    "called",
    "case",
    "cast",
    "column",
    "equal",
    "everything_but",
    "identifier",
    "literal",
    "number",
    "qualified",
    "recursive",
    "select",
    "string",
    "subquery",
    "table",
    "text",
    "union_all",
    "verbatim",
]


def column(name: str, of: str | None = None) -> exp.Column:
    """Name a column, of the relation `of` where that matters."""
    return exp.Column(this=identifier(name), table=identifier(of) if of else None)


def identifier(name: str) -> exp.Identifier:
    """Quote a name."""
    return exp.Identifier(this=name, quoted=True)


def table(name: str) -> exp.Table:
    """Name a table or temporary view of one part."""
    return exp.Table(this=identifier(name))


def qualified(parts: Sequence[str]) -> str:
    """Spell a name of one or more parts."""
    return ".".join(identifier(part).sql(dialect="spark") for part in parts)


def string(value: str) -> exp.Literal:
    """Spell a string literal."""
    return exp.Literal.string(value)


def number(value: int) -> exp.Expr:
    """Spell an integer literal."""
    return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))


def call(function: str, *arguments: exp.Expr) -> exp.Anonymous:
    """Call a function by its Spark name, untouched by sqlglot's own idea of it."""
    return exp.Anonymous(this=function, expressions=list(arguments))


def literal(text_: str, spark_type: str) -> exp.Anonymous:
    """Spell a literal that differs in each refresh, as text cast to the type. Generated code refers to it and is reused."""
    return call("st_value", string(text_), string(spark_type))


def verbatim(text_: str) -> exp.Var:
    """Pass on a user's text to Spark. A newline ends a comment at its end."""
    return exp.Var(this=f"{text_}\n")


def everything_but(columns: Iterable[str]) -> exp.Star:
    """Spell * [EXCEPT (columns)]."""
    names = [identifier(name) for name in columns]
    return exp.Star(except_=names) if names else exp.Star()


def cast(value: exp.Expr, spark_type: str) -> exp.Cast:
    """Cast to a type in Spark's own spelling, which is passed on as it is."""
    return exp.Cast(this=value, to=exp.Var(this=spark_type))


def alias(value: exp.Expr, name: str) -> exp.Alias:
    """Name an expression."""
    return exp.Alias(this=value, alias=identifier(name))


def case(condition: exp.Expr, value: exp.Expr, otherwise: exp.Expr | None = None) -> exp.Case:
    """Spell CASE WHEN condition THEN value [ELSE otherwise] END."""
    return exp.Case(ifs=[exp.If(this=condition, true=value)], default=otherwise)


def equal(left: exp.Expr, right: exp.Expr) -> exp.NullSafeEQ:
    """Compare so that NULL equals NULL."""
    return exp.NullSafeEQ(this=left, expression=right)


def all_of(conditions: Iterable[exp.Expr]) -> exp.Expr:
    """Join conditions with AND; TRUE when there are none."""
    return _fold(conditions, exp.And, empty=exp.true())


def any_of(conditions: Iterable[exp.Expr]) -> exp.Expr:
    """Join conditions with OR; FALSE when there are none."""
    return _fold(conditions, exp.Or, empty=exp.false())


def _fold(conditions: Iterable[exp.Expr], connector: type[exp.And | exp.Or], empty: exp.Expr) -> exp.Expr:
    folded: exp.Expr | None = None
    for condition in conditions:
        part = exp.Paren(this=condition)
        folded = part if folded is None else connector(this=folded, expression=part)
    return empty if folded is None else folded


def select(items: Iterable[exp.Expr], source: exp.Expr | None = None) -> exp.Select:
    """Spell SELECT items [FROM source]."""
    query = exp.Select(expressions=list(items))
    return query.from_(source, copy=False) if source is not None else query


def called(name: str, alias_: str) -> exp.Table:
    """Name a view, with its alias in this query."""
    return exp.Table(this=identifier(name), alias=exp.TableAlias(this=identifier(alias_)))


def subquery(query: exp.Query, name: str) -> exp.Subquery:
    """Name a query so that it can stand in FROM."""
    return exp.Subquery(this=query, alias=exp.TableAlias(this=identifier(name)))


def union_all(queries: Sequence[exp.Query]) -> exp.Query:
    """Spell query UNION ALL query ..., all with the same columns."""
    union: exp.Query = queries[0]
    for query in queries[1:]:
        union = exp.Union(this=union, expression=query, distinct=False)
    return union


class _RecursiveName(exp.TableAlias):
    """The name of a recursion with Spark's own clause, which sqlglot does not know."""

    arg_types = {**exp.TableAlias.arg_types, "most": False}


class _Generator(SparkGenerator):
    # A query may contain a recursion twice, before and after a change: each WITH stays where it is, with its name.
    EXPRESSIONS_WITHOUT_NESTED_CTES = set()
    TRANSFORMS = {
        **SparkGenerator.TRANSFORMS,
        _RecursiveName: lambda self, e: f"{self.tablealias_sql(e)} MAX RECURSION LEVEL {e.args['most']}",
    }


class _Spark(Spark):
    generator_class = _Generator


def recursive(name: str, columns: Sequence[str], union: exp.Query, most: int | None, items: Iterable[exp.Expr]) -> exp.Select:
    """Spell WITH RECURSIVE name(columns) [MAX RECURSION LEVEL most] AS (union) SELECT items FROM name."""
    kind = exp.TableAlias if most is None else _RecursiveName
    named = kind(
        this=identifier(name), columns=[identifier(c) for c in columns], **({} if most is None else {"most": number(most)})
    )
    query = select(items, table(name))
    query.set("with_", exp.With(expressions=[exp.CTE(this=union, alias=named)], recursive=True))
    return query


def text(expression: exp.Expr, pretty: bool = False) -> str:
    """Write an expression or query as Spark SQL.

    Subqueries are written from the inside out: sqlglot goes down by ten calls a level, and Python allows a thousand.
    """
    if pretty:
        return expression.sql(dialect=_Spark, pretty=True, comments=False)
    whole = expression.copy()
    for nested in reversed(list(whole.find_all(exp.Subquery))):
        nested.set("this", exp.Var(this=nested.this.sql(dialect=_Spark, comments=False, copy=False)))
    return whole.sql(dialect=_Spark, comments=False, copy=False)
