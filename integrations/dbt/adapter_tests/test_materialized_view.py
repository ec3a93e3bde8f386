"""The classes of dbt-tests-adapter for materialized views: a stream table is one."""

from __future__ import annotations

from typing import Any

from dbt.tests.adapter.materialized_view.basic import MaterializedViewBasic
from dbt.tests.adapter.materialized_view.changes import (
    MaterializedViewChanges,
    MaterializedViewChangesApplyMixin,
    MaterializedViewChangesContinueMixin,
    MaterializedViewChangesFailMixin,
)
from dbt.tests.util import get_model_file, set_model_file


def kind(project: Any, relation: Any) -> str | None:
    """Return what the catalog has under a name."""
    if project.run_sql(f"show stream tables in {relation.schema} like '{relation.identifier}'", fetch="all"):
        return "materialized_view"
    views = project.run_sql(f"show views in {relation.schema} like '{relation.identifier}'", fetch="all")
    return "view" if views else "table"


def described(project: Any, relation: Any) -> dict[str, str]:
    return dict(project.run_sql(f"describe stream table {relation}", fetch="all"))


class TestMaterializedView(MaterializedViewBasic):
    @staticmethod
    def insert_record(project: Any, table: Any, record: tuple[int, int]) -> None:
        project.run_sql(f"insert into {table} values {record}")

    @staticmethod
    def refresh_materialized_view(project: Any, materialized_view: Any) -> None:
        project.run_sql(f"refresh materialized view {materialized_view}")

    @staticmethod
    def query_row_count(project: Any, relation: Any) -> int:
        return int(project.run_sql(f"select count(*) from {relation}", fetch="one")[0])

    @staticmethod
    def query_relation_type(project: Any, relation: Any) -> str | None:
        return kind(project, relation)


class Changes(MaterializedViewChanges):
    """A schedule is altered, a query is replaced."""

    @staticmethod
    def check_start_state(project: Any, materialized_view: Any) -> None:
        told = described(project, materialized_view)
        assert told["schedule"] == "MANUAL"
        assert "value > 100" not in told["query"]

    @staticmethod
    def change_config_via_alter(project: Any, materialized_view: Any) -> None:
        text = get_model_file(project, materialized_view)
        set_model_file(project, materialized_view, text.replace("='materialized_view',", "='materialized_view', schedule='9m',"))

    @staticmethod
    def check_state_alter_change_is_applied(project: Any, materialized_view: Any) -> None:
        assert described(project, materialized_view)["schedule"] == "'9m'"

    @staticmethod
    def change_config_via_replace(project: Any, materialized_view: Any) -> None:
        set_model_file(project, materialized_view, f"{get_model_file(project, materialized_view)} where value > 100")

    @staticmethod
    def check_state_replace_change_is_applied(project: Any, materialized_view: Any) -> None:
        assert project.run_sql(f"select count(*) from {materialized_view}", fetch="one")[0] == 2

    @staticmethod
    def query_relation_type(project: Any, relation: Any) -> str | None:
        return kind(project, relation)


class TestApply(Changes, MaterializedViewChangesApplyMixin):
    pass


class TestContinue(Changes, MaterializedViewChangesContinueMixin):
    pass


class TestFail(Changes, MaterializedViewChangesFailMixin):
    pass
