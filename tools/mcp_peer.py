"""An MCP server for the page's check, made with the official package: streamable HTTP with sessions.

    pip install mcp
    python tools/mcp_peer.py PAGE_ORIGIN

It prints its port. Under /events/mcp answers are streams of events, under /json/mcp single documents. Pages of PAGE_ORIGIN may
call it. `POST /forget` ends all sessions, as a server that was started anew has none.
"""

import contextlib
import socket
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

CALLS = []


def server(name):
    made = MCPServer(name, log_level="CRITICAL")

    @made.tool(description="Adds two numbers.")
    def add(a: int, b: int) -> str:
        CALLS.append((name, a, b))
        return f"{a} + {b} = {a + b} <b>&amp;</b>"

    @made.tool(description="Always fails.")
    def fail() -> str:
        raise ValueError("this tool always fails")

    return made


def main():
    origin = sys.argv[1]
    security = TransportSecuritySettings(allowed_hosts=["127.0.0.1:*"], allowed_origins=[origin])
    servers = [server("Events"), server("Documents")]
    events = servers[0].streamable_http_app(transport_security=security)
    documents = servers[1].streamable_http_app(transport_security=security, json_response=True)

    @contextlib.asynccontextmanager
    async def lifespan(_):
        async with contextlib.AsyncExitStack() as stack:
            for one in servers:
                await stack.enter_async_context(one.session_manager.run())
            yield

    async def calls(_):
        return JSONResponse(CALLS)

    async def forget(_):
        for one in servers:
            sessions = one.session_manager._server_instances
            for transport in list(sessions.values()):
                await transport.terminate()
            sessions.clear()
        return JSONResponse(True)

    cors = Middleware(
        CORSMiddleware,
        allow_origins=[origin],
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["*"],
        expose_headers=["Mcp-Session-Id"],
    )
    routes = [
        Route("/calls", calls),
        Route("/forget", forget, methods=["POST"]),
        Mount("/events", app=events),
        Mount("/json", app=documents),
    ]
    app = Starlette(routes=routes, middleware=[cors], lifespan=lifespan)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main()
