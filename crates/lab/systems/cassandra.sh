#!/bin/sh
# Brings Apache Cassandra 5.0 from Maven Central below target/rivals/cassandra (or $SKERRY_RIVALS/cassandra), for
# cassandra.toml. May be run again: what is there stays. Needs Maven and a JDK 17; about 66 MB.
set -eu
here=$(cd "$(dirname "$0")/../../.." && pwd)
place=${SKERRY_RIVALS:-$here/target/rivals}/cassandra
version=5.0.5
if [ -e "$place/jamm.jar" ]; then
    echo "Cassandra is there: $(ls "$place/lib" | grep '^cassandra-all')"
    exit 0
fi
echo "bringing cassandra-all $version and what it depends on to $place"
mkdir -p "$place"
cat > "$place/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>lab</groupId><artifactId>cassandra</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>org.apache.cassandra</groupId><artifactId>cassandra-all</artifactId><version>$version</version>
  </dependency></dependencies>
</project>
POM
mvn -q -B -f "$place/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$place/lib"
# The agent by which Cassandra measures its objects, under a name without a version.
ln -sf "lib/$(cd "$place/lib" && ls | grep '^jamm-' | head -1)" "$place/jamm.jar"
echo "installed: $(ls "$place/lib" | grep '^cassandra-all')"
