"""Which Neo4j do the tests have?  Fetches the community server from Maven Central into .cache/neo4j.

Run it once (`python tests/ports/neo4j_server.py`) before the tests of playbooks in Neo4j.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

VERSION = "5.26.30"
CACHE = Path(__file__).parents[2] / ".cache" / "neo4j"
JARS = CACHE / VERSION
WHY = CACHE / "why-not.txt"  # why it could not be fetched
PASSWORD = "not-a-secret-8443"
_POM = """
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>refdesk.tests</groupId><artifactId>neo4j</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.neo4j</groupId><artifactId>neo4j</artifactId><version>{version}</version></dependency>
    <dependency>
      <groupId>org.neo4j.app</groupId><artifactId>neo4j-server</artifactId><version>{version}</version>
    </dependency>
  </dependencies>
</project>
"""
_CONFIGURATION = """
server.bolt.listen_address=127.0.0.1:{port}
server.bolt.advertised_address=127.0.0.1:{port}
server.http.enabled=false
server.memory.pagecache.size=16m
dbms.usage_report.enabled=false
dbms.security.auth_max_failed_attempts=0
"""
_JAVA = (
    "-Xms64m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
    "--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED", "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
)  # fmt: skip
_START_S = 180  # on a machine that is busy with other tests


def install() -> str:
    """Fetches what is missing; the reason where that fails, or ""."""
    if JARS.is_dir():
        return ""
    for command in ("java", "mvn"):
        if shutil.which(command) is None:
            return f"Neo4j needs {command}, which is not installed (Debian: default-jre-headless, maven)"
    coming = CACHE / f"{VERSION}.coming"
    shutil.rmtree(coming, ignore_errors=True)
    coming.mkdir(parents=True)
    (coming / "pom.xml").write_text(_POM.format(version=VERSION))
    copy = ["dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=jars"]
    try:
        subprocess.run(["mvn", "-q", "-B", "-ntp", *copy], cwd=coming, check=True, timeout=900, text=True)
    except (subprocess.SubprocessError, OSError) as error:
        return f"Neo4j could not be fetched from Maven Central: {error}"
    (coming / "jars").replace(JARS)
    shutil.rmtree(coming)
    return ""


def required() -> None:
    """Skips a test where the server is missing."""
    import pytest  # fetching needs nothing but Python

    if not JARS.is_dir() or shutil.which("java") is None:
        tried = WHY.read_text() if WHY.exists() else ""
        pytest.skip(f"needs a Neo4j server: {tried or 'run `python tests/ports/neo4j_server.py` first'}")


class Neo4jServer:
    """A Neo4j server on loopback with a folder of its own."""

    def __init__(self, home: Path) -> None:
        self._home = home
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self._port = taken.getsockname()[1]
        (home / "conf").mkdir(parents=True)
        (home / "conf/neo4j.conf").write_text(_CONFIGURATION.format(port=self._port))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        return f"bolt://127.0.0.1:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        """What RefDesk reads to use it."""
        return {
            "REFDESK_SKILLS": "neo4j",
            "NEO4J_URI": self.uri,
            "NEO4J_USER": "neo4j",
            "NEO4J_PASSWORD": PASSWORD,
            "NEO4J_DATABASE": "neo4j",
        }

    def start(self) -> None:
        """Starts it without waiting."""
        folders = [f"--home-dir={self._home}", f"--config-dir={self._home / 'conf'}", "--console-mode"]
        command = ["java", *_JAVA, "-cp", f"{JARS}/*", "org.neo4j.server.CommunityEntryPoint", *folders]
        with (self._home / "output.log").open("ab") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def wait(self) -> None:
        """Waits until it answers, its password set."""
        from neo4j import GraphDatabase
        from neo4j.exceptions import AuthError, DriverError, TransientError

        assert self._process is not None
        until = time.monotonic() + _START_S
        is_new = not (self._home / "ready").exists()
        while True:
            try:
                auth = ("neo4j", "neo4j" if is_new else PASSWORD)
                with GraphDatabase.driver(self.uri, auth=auth, max_transaction_retry_time=0) as driver:
                    if is_new:
                        driver.execute_query(
                            "ALTER CURRENT USER SET PASSWORD FROM 'neo4j' TO $password",
                            password=PASSWORD,
                            database_="system",
                        )
                        (self._home / "ready").touch()
                        is_new = False
                        continue
                    driver.execute_query("RETURN 1", database_="neo4j")
                    return
            except (DriverError, TransientError, AuthError):
                log = (self._home / "output.log").read_text(errors="replace")
                assert self._process.poll() is None, log
                assert time.monotonic() < until, log
                time.sleep(0.25)

    def query(self, statement: str, **parameters: object) -> list[list[object]]:
        """The rows of one statement, asked past RefDesk."""
        from neo4j import GraphDatabase

        with GraphDatabase.driver(self.uri, auth=("neo4j", PASSWORD), notifications_min_severity="OFF") as driver:
            return [row.values() for row in driver.execute_query(statement, parameters, database_="neo4j").records]

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        if number is signal.SIGSTOP:  # until then it may still answer
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def kill(self) -> None:
        """Ends it as a power failure would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


if __name__ == "__main__":
    WHY.parent.mkdir(parents=True, exist_ok=True)
    WHY.write_text(problem := install())
    print(f"== {problem}: the tests that need it are skipped" if problem else JARS)
