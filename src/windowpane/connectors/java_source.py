"""Java code for the driver, compiled by the compiler that Spark brings along."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def compiled(jvm: Any, name: str, source: str) -> Any:
    """An object of a class. Once per JVM: Py4J remembers methods by the name of a class, and would call those of an
    earlier one.
    """
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(source)
    return compiler.getClassLoader().loadClass(name).newInstance()
