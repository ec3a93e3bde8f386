package org.apache.spark.sql.streamtable

import org.apache.spark.sql.catalyst.{FunctionIdentifier, InternalRow}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.util.{ArrayBasedMapData, ArrayData, GenericArrayData, MapData}
import org.apache.spark.sql.types.{ArrayType, DataType, MapType, StructField, StructType}

/** A value whose structs have the fields of `dataType` alone, found by their names. */
private[streamtable] case class Shaped(child: Expression, override val dataType: DataType)
    extends UnaryExpression
    with CodegenFallback {
  @transient private lazy val shape = Shaped.from(child.dataType, dataType)
  override protected def nullSafeEval(value: Any): Any = shape(value)
  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}

private[streamtable] object Shaped {

  /** `now` with the fields of `was` alone, in their order; none where one is gone, or where the keys of a map have others. */
  def kept(was: DataType, now: DataType): Option[DataType] = (was, now) match {
    case (before: StructType, after: StructType) =>
      val fields = before.fields.toSeq.map { field =>
        for {
          there <- after.fields.find(_.name == field.name)
          shape <- kept(field.dataType, there.dataType)
        } yield there.copy(dataType = shape)
      }
      Option.when(fields.forall(_.isDefined))(StructType(fields.flatten))
    case (ArrayType(a, _), ArrayType(b, nullable)) => kept(a, b).map(ArrayType(_, nullable))
    case (MapType(a, c, _), MapType(b, d, nullable)) =>
      kept(a, b).filter(_ == b).flatMap(_ => kept(c, d)).map(MapType(b, _, nullable))
    case _ => Some(now)
  }

  val identifier: FunctionIdentifier = FunctionIdentifier("st_shaped")
  val info: ExpressionInfo = new ExpressionInfo(getClass.getName, "st_shaped")

  /** `st_shaped(v, 'type')` is v with the fields that this type has. */
  def build(arguments: Seq[Expression]): Expression = {
    val value = arguments.head
    kept(DataType.fromDDL(arguments(1).eval().toString), value.dataType)
      .filter(_ != value.dataType)
      .fold(value)(Shaped(value, _))
  }

  private def from(now: DataType, to: DataType): Any => Any = (now, to) match {
    case _ if now == to => identity
    case (StructType(fields), StructType(wanted)) =>
      val places = wanted.map { field =>
        val place = fields.indexWhere(_.name == field.name)
        (place, fields(place).dataType, from(fields(place).dataType, field.dataType))
      }
      value => {
        val row = value.asInstanceOf[InternalRow]
        new GenericInternalRow(places.map { case (place, kind, shape) =>
          if (row.isNullAt(place)) null else shape(row.get(place, kind))
        })
      }
    case (ArrayType(a, _), ArrayType(b, _)) =>
      val shape = elements(a, b)
      value => shape(value.asInstanceOf[ArrayData])
    case (MapType(_, a, _), MapType(_, b, _)) =>
      val shape = elements(a, b)
      value => {
        val map = value.asInstanceOf[MapData]
        new ArrayBasedMapData(map.keyArray(), shape(map.valueArray()))
      }
    case _ => identity
  }

  private def elements(now: DataType, to: DataType): ArrayData => ArrayData = {
    val shape = from(now, to)
    array => new GenericArrayData(array.toObjectArray(now).map(value => if (value == null) null else shape(value)))
  }

  /** A type as the values of it are: without comments and defaults of fields. */
  def plain(kind: DataType): DataType = kind match {
    case StructType(fields) => StructType(fields.map(f => StructField(f.name, plain(f.dataType), f.nullable)))
    case ArrayType(element, nullable) => ArrayType(plain(element), nullable)
    case MapType(key, value, nullable) => MapType(plain(key), plain(value), nullable)
    case other => other
  }
}
