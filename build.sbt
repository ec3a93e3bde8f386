// For work on the shim in an editor. The package itself needs no sbt: jvm_shim/build_hook.py builds the same jar.
ThisBuild / scalaVersion := "2.13.18"

val sparkVersion = "4.2.0"
val deltaVersion = "4.4.0"

lazy val shim = (project in file("jvm_shim"))
  .settings(
    name := "streamtable-shim",
    Compile / unmanagedSourceDirectories ++= Seq("spark-4.2", "spark-4.1-4.2").map(baseDirectory.value / _),
    version := "0.1.0",
    Compile / resourceGenerators += Def.task {
      val file = (Compile / resourceManaged).value / "org" / "apache" / "spark" / "sql" / "streamtable" / "version"
      IO.write(file, version.value)
      Seq(file)
    }.taskValue,
    scalacOptions ++= Seq("-encoding", "UTF-8", "-deprecation", "-feature", "-unchecked", "-Xlint"),
    libraryDependencies ++= Seq(
      "org.apache.spark" %% "spark-sql" % sparkVersion % Provided,
      "org.apache.spark" %% "spark-hive-thriftserver" % sparkVersion % Provided, // HiveServer2, and Hive and Thrift below it
      "org.apache.spark" %% "spark-connect" % sparkVersion % Provided, // gRPC's interface for requests
      "io.delta" % s"delta-spark_${sparkVersion.split('.').take(2).mkString(".")}_2.13" % deltaVersion % Provided
    )
  )

lazy val root = (project in file(".")).aggregate(shim).settings(publish / skip := true)
