"""What is executed by the python of the environment under test: standard library only.

One process per environment, the worker, imports the libraries once and forks a child per cell.
It speaks JSON lines: requests on its standard input, answers on a descriptor of its own.
"""
