"""HTTP/1.1 on a C parser: one protocol object for each connection, which calls the application directly.

`head` reads the head of a request, `body` its framing, `answer` writes the head of an answer; `call` is one
request with its answer as ASGI sees it, `connection` puts them on a transport.
"""
