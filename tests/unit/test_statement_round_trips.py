"""Any statement reads as it was printed, and any text reads or is refused; nothing else can happen."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamtable.errors import InvalidStatement, StatementSyntaxError
from streamtable.language.names import Condition, Name, Query
from streamtable.language.parse import AnyStatement, keywords, parse
from streamtable.language.queue.ast import (
    AlterQueue,
    Columns,
    CreateQueue,
    DropQueue,
    FinishBatch,
    GiveUpEvents,
    Limits,
    NextBatch,
    OfSchedulers,
    PurgeQueue,
    Reader,
    RegisterConsumer,
    ReplayDeadLetters,
    RetryEvents,
    ShowConsumers,
    ShowDeadLetters,
    ShowQueues,
    UnregisterConsumer,
)
from streamtable.language.replication.ast import (
    GENERATED,
    PUBLISH,
    AddObjects,
    AlterPublication,
    AlterSubscription,
    ApplySubscription,
    CreatePublication,
    CreateReplicationSlot,
    CreateSubscription,
    Disable,
    DropObjects,
    DropPublication,
    DropReplicationSlot,
    DropSubscription,
    Enable,
    Objects,
    PublishedTable,
    RefreshPublication,
    ResetStatistics,
    SetConnection,
    SetObjects,
    SetOptions,
    SetPublications,
    Skip,
)
from streamtable.language.stream_table.ast import (
    AlterStreamTable,
    ColumnSpec,
    CommentColumns,
    CreateStreamTable,
    DescribeStreamTable,
    DropStreamTable,
    ExplainAlter,
    ExplainCreate,
    ExplainStreamTable,
    RefreshMode,
    RefreshStreamTable,
    RefreshStreamTables,
    Rename,
    Resume,
    SetComment,
    SetMode,
    SetProperties,
    SetQuery,
    SetSchedule,
    ShowCreateStreamTable,
    ShowDependencies,
    ShowRefreshHistory,
    ShowStreamTables,
    Suspend,
    UnsetProperties,
    VerifyStreamTable,
    VerifyStreamTables,
)
from streamtable.language.stream_table.expectations import AddExpectation, DropExpectation, Expectation, Violation
from streamtable.language.stream_table.history import Backfill, SetFrozen
from streamtable.language.stream_table.schedule import Calculated, Cron, Every, Immediate, Manual, OnUpdate, Unsaid
from streamtable.language.stream_table.scheduler import AlterScheduler
from streamtable.language.stream_table.state import SetState, StateMode
from streamtable.language.subscribe.ast import (
    CloseCursor,
    CopyToStdout,
    Debezium,
    DeclareCursor,
    Fetch,
    Modifier,
    OrderItem,
    Subscribe,
    Upsert,
    WithinTimestamp,
)
from streamtable.language.write import to_sql

KEYWORDS = keywords()
DAY_MS = 86_400_000


characters = st.characters(exclude_categories=["Cs"])
texts = st.text(characters, max_size=8) | st.sampled_from(["'", "\\", "\\'", "''", '"', "`", "\\n", "/*", "--", "AS", ";"])
patterns = texts.filter(lambda text: "%" not in text)
identifiers = st.text(characters, min_size=1, max_size=8) | st.sampled_from(KEYWORDS)
parts = identifiers.filter(lambda part: "/" not in part)
names = st.lists(parts, min_size=1, max_size=3).map(lambda parts: Name(tuple(parts)))
namespaces = st.lists(identifiers, min_size=1, max_size=2).map(lambda parts: Name(tuple(parts)))
columns = st.lists(identifiers, max_size=3, unique_by=str.casefold).map(tuple)
column_specs = st.lists(
    st.builds(ColumnSpec, identifiers, st.none() | texts), max_size=3, unique_by=lambda column: column.name.casefold()
).map(tuple)
properties = st.dictionaries(texts, texts, max_size=3).map(lambda pairs: tuple(pairs.items()))
some_properties = st.dictionaries(texts, texts, min_size=1, max_size=3).map(lambda pairs: tuple(pairs.items()))
queries = st.sampled_from(["SELECT 1", "SELECT ';' -- ;", "/* a /* b */ */ SELECT `;`", "WITH a AS (SELECT 1) FROM a"]).map(Query)
schedules = st.sampled_from(
    [
        Manual(),
        Calculated(),
        Every(90, "1m30s"),
        Every(694_861, "1w 1d 1h 1m 1s"),
        Cron("0 6 * * mon-fri"),
        Cron("@daily", "UTC"),
        Immediate(),
        OnUpdate(),
        OnUpdate(Every(90, "1m30s")),
    ]
)
modes = st.sampled_from(RefreshMode)
states = st.sampled_from(StateMode)
for_spark = st.sampled_from(["a > 1", "')' = a -- )", "/* ( */ (b) IN (1)", "CAST(a AS INT) <> ';' -- AS"]).map(Condition)
expected = st.builds(
    Expectation,
    identifiers,
    for_spark,
    st.sampled_from(Violation),
)
expectations = st.lists(expected, max_size=2, unique_by=lambda each: each.name.casefold()).map(tuple)
creates = st.builds(
    CreateStreamTable,
    names,
    queries,
    column_specs,
    schedule=schedules | st.just(Unsaid()),  # ALTER always says a schedule
    mode=modes,
    state=states,
    with_data=st.booleans(),
    comment=st.none() | texts,
    location=st.none() | texts.filter(str.strip),
    properties=properties,
    expectations=expectations,
) | st.builds(CreateStreamTable, names, queries, or_replace=st.booleans(), partitioned_by=columns)
creates |= st.builds(
    CreateStreamTable, names, queries, backfill=st.builds(Backfill, names, st.booleans()), frozen=st.none() | for_spark
)
creates |= st.builds(CreateStreamTable, names, queries, or_replace=st.just(True), or_refresh=st.booleans())
creates |= st.builds(CreateStreamTable, names, queries, if_not_exists=st.booleans(), clustered_by=columns)
actions = (
    st.builds(SetSchedule, schedules)
    | st.builds(SetMode, modes)
    | st.builds(SetState, states)
    | st.builds(SetProperties, some_properties)
    | st.builds(UnsetProperties, st.lists(texts, min_size=1, max_size=3, unique=True).map(tuple), st.booleans())
    | st.builds(SetComment, texts)
    | st.builds(CommentColumns, st.dictionaries(identifiers, texts, min_size=1, max_size=1).map(lambda each: tuple(each.items())))
    | st.builds(SetQuery, queries)
    | st.builds(Rename, names)
    | st.builds(AddExpectation, expected)
    | st.builds(DropExpectation, identifiers, st.booleans())
    | st.builds(SetFrozen, st.none() | for_spark)
    | st.sampled_from([Suspend(), Resume()])
)
keys = st.lists(identifiers, min_size=1, max_size=3, unique_by=str.casefold).map(tuple)
order_items = st.builds(OrderItem, identifiers | st.integers(0, 99), st.booleans(), st.none() | st.booleans())
envelopes: st.SearchStrategy[Modifier] = st.builds(Upsert, keys) | st.builds(Debezium, keys)
modifiers = envelopes | st.builds(WithinTimestamp, st.lists(order_items, min_size=1, max_size=3).map(tuple))
times = st.none() | st.integers(0, 10**38 - 1)
inner_queries = st.sampled_from(["SELECT ')' AS a -- )", "/* ( */ SELECT (1) AS `)`", "TABLE t"]).map(Query)
relations = st.lists(identifiers, min_size=1, max_size=3).map(lambda parts: Name(tuple(parts))) | inner_queries
subscribes = st.builds(Subscribe, relations, st.none() | modifiers, st.booleans(), st.booleans(), up_to=times)
subscribes |= st.builds(Subscribe, relations, as_of=st.integers(0, 9), at_least=st.booleans(), up_to=times)
subscribing = (
    subscribes
    | st.builds(CopyToStdout, subscribes)
    | st.builds(DeclareCursor, identifiers, subscribes)
    | st.builds(Fetch, identifiers, st.none() | st.integers(0, 2**31 - 1), st.none() | st.integers(0, DAY_MS))
    | st.builds(CloseCursor, identifiers)
)
conditions = st.none() | st.sampled_from(["a > 1", "')' = a -- )", "/* ( */ (b) IN (1)"])
durations = st.integers(0, 10**9).map(lambda milliseconds: timedelta(milliseconds=milliseconds))
counts = st.none() | st.integers(1, 10**18 - 1)
limits = st.builds(Limits, counts, st.none() | durations, counts, st.none() | durations, st.none() | durations)
readers = st.builds(Reader, names, identifiers, st.none() | identifiers)
queues = (
    st.builds(CreateQueue, names, st.builds(Subscribe, relations, st.none() | envelopes), st.just(False), st.booleans(), limits)
    | st.builds(CreateQueue, names, st.builds(Subscribe, relations, envelopes), st.booleans(), st.booleans(), limits, st.booleans())
    | st.builds(CreateQueue, names, st.just(OfSchedulers()), limits=limits)
    | st.builds(CreateQueue, names, st.sampled_from(["a INT", "a STRUCT<b: INT>, `)` INT -- )"]).map(Columns), limits=limits)
    | st.builds(AlterQueue, names, limits, st.just(("min_lag",))).filter(lambda altered: altered.limits.min_lag is None)
    | st.builds(DropQueue, names, st.booleans(), st.booleans())
    | st.builds(PurgeQueue, names)
    | st.builds(RegisterConsumer, identifiers, names, times)
    | st.builds(UnregisterConsumer, identifiers, names)
    | st.builds(ShowQueues, st.none() | namespaces)
    | st.builds(ShowConsumers, names)
    | st.builds(NextBatch, readers, limits, st.none() | durations)
    | st.builds(FinishBatch, readers, counts)
    | st.builds(RetryEvents, readers, conditions, durations)
    | st.builds(GiveUpEvents, readers, conditions)
    | st.builds(ShowDeadLetters, names, identifiers)
    | st.builds(ReplayDeadLetters, names, identifiers, conditions)
)
publications = st.lists(identifiers, min_size=1, max_size=3, unique_by=str.casefold).map(tuple)
published = st.builds(PublishedTable, names, columns, conditions)
schemas = st.lists(st.lists(parts, min_size=1, max_size=2).map(lambda parts: Name(tuple(parts))), max_size=2).map(tuple)
some_tables = st.lists(published, min_size=1, max_size=3).map(tuple)
named_tables = st.lists(st.builds(PublishedTable, names), min_size=1, max_size=3).map(tuple)
objects = st.builds(Objects, some_tables, schemas) | st.builds(
    Objects, all_tables=st.just(True), excepted=st.lists(names, max_size=2).map(tuple)
)
kinds = st.sets(st.sampled_from(PUBLISH)).map(lambda chosen: tuple(kind for kind in PUBLISH if kind in chosen))
switch = st.sampled_from(["true", "false"])
refreshing = st.sampled_from([(), (("refresh", "false"),), (("refresh", "true"), ("copy_data", "false"))])
publication_actions = (
    st.builds(AddObjects, objects)
    | st.builds(SetObjects, objects)
    | st.builds(DropObjects, st.builds(Objects, named_tables, schemas))
    | st.builds(Rename, names)
    | kinds.map(lambda chosen: SetOptions((("publish", ",".join(chosen)), ("publish_generated_columns", "stored"))))
)
subscription_actions = (
    st.builds(SetConnection, texts)
    | st.builds(SetPublications, st.sampled_from(["SET", "ADD"]), publications, refreshing)
    | st.builds(SetPublications, st.just("DROP"), publications)
    | st.builds(RefreshPublication, switch.map(lambda value: (("copy_data", value),)))
    | st.from_regex(r"[A-Za-z0-9_]+", fullmatch=True)
    .filter(lambda slot: slot.casefold() != "none")
    .map(lambda slot: SetOptions((("slot_name", slot),)))
    | st.builds(Skip, st.none() | st.integers(0, 10**18), st.none() | texts)
    | st.builds(Rename, names)
    | st.sampled_from([Enable(), Disable(), ResetStatistics()])
)
replicating = (
    st.builds(CreatePublication, names, objects | st.just(Objects()), kinds, st.sampled_from(GENERATED))
    | st.builds(AlterPublication, names, publication_actions)
    | st.builds(DropPublication, st.lists(names, min_size=1, max_size=3, unique=True).map(tuple), st.booleans())
    | st.builds(
        CreateSubscription, names, texts, publications, switch.map(lambda value: (("copy_data", value), ("origin", "none")))
    )
    | st.builds(AlterSubscription, names, subscription_actions)
    | st.builds(DropSubscription, names, st.booleans())
    | st.builds(ApplySubscription, names)
    | st.builds(CreateReplicationSlot, names, publications)
    | st.builds(DropReplicationSlot, names, st.booleans())
)
statements = st.one_of(
    subscribing,
    queues,
    replicating,
    creates,
    st.builds(ExplainCreate, creates),
    st.builds(ExplainAlter, names, st.builds(SetQuery, queries)),
    st.builds(AlterStreamTable, names, actions),
    st.builds(DropStreamTable, names, st.booleans(), st.booleans()),
    st.builds(RefreshStreamTable, st.lists(names, min_size=1, max_size=3).map(tuple), st.booleans(), st.booleans(), st.booleans()),
    st.builds(AlterScheduler, st.booleans()),
    st.builds(ShowStreamTables, st.none() | namespaces, st.none() | patterns),
    st.builds(DescribeStreamTable, names, st.booleans()),
    st.builds(ShowCreateStreamTable, names),
    st.builds(ShowRefreshHistory, st.none() | names, st.none() | st.integers(0, 2**31 - 1)),
    st.builds(ShowDependencies, st.none() | names),
    st.builds(ExplainStreamTable, names, st.booleans()),
    st.builds(VerifyStreamTable, names),
    st.builds(VerifyStreamTables, st.none() | namespaces, st.none() | patterns),
    st.builds(RefreshStreamTables, st.none() | namespaces, st.none() | patterns, st.booleans(), st.booleans()),
)


@given(statements)
@settings(deadline=None)
def test_any_statement_reads_as_it_was_printed(statement: AnyStatement) -> None:
    assert parse(to_sql(statement)) == statement


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """Return the text of a statement with some places cut out, doubled, or filled with something else."""
    text = draw(statements.map(to_sql))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 12)))
        piece = draw(
            st.sampled_from(["", " ", "'", '"', "`", "/*", "*/", "--", "\n", ";", "(", ",", "=", ".", "AS", "x", "9", "é"])
        )
        text = text[:start] + draw(st.sampled_from([piece, text[start:end] * 2])) + text[end:]
    return text


def outcome(text: str) -> AnyStatement | StatementSyntaxError | InvalidStatement:
    try:
        return parse(text)
    except (StatementSyntaxError, InvalidStatement) as error:
        return error


@given(mutated() | st.text())
@example("REFRESH STREAM TABLE \udc00")
@example("REFRESH STREAM TABLE `\udc00`")
@example("SHOW STREAM TABLES LIKE '\\n\udc00'")
@settings(deadline=None, max_examples=150)
def test_any_text_reads_or_is_refused(text: str) -> None:
    read = outcome(text)
    if isinstance(read, StatementSyntaxError | InvalidStatement):
        assert read.reason.startswith("line ")
    else:
        assert parse(to_sql(read)) == read
