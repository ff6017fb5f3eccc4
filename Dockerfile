# What stapsdt is built and tested with, and how a program that uses it becomes an
# image of one file.
#
#	docker build --target toolchain -t stapsdt-toolchain .    Go, gcc, libelf, bpftrace and the other tracers
#	docker build .                                            and builds and tests the project in it
#	docker build --target hello -t hello .                    examples/hello, static, in an empty image
#
# A build may not attach tracers. To run those tests too:
#
#	docker run --rm --privileged --pid host -v /sys:/sys -e CI=true stapsdt-toolchain scripts/test.sh

FROM golang:1.26-bookworm AS toolchain
COPY scripts/tools.sh /tools/
COPY scripts/lib/install.sh /tools/lib/
RUN /tools/tools.sh && rm -rf /var/lib/apt/lists/*
WORKDIR /stapsdt
COPY go.mod go.sum go.work go.work.sum ./
COPY cmd/stapsdt/go.mod cmd/stapsdt/go.sum cmd/stapsdt/
COPY examples/http/go.mod examples/http/go.sum examples/http/
COPY examples/lua/go.mod examples/lua/go.sum examples/lua/
COPY examples/wasm/go.mod examples/wasm/go.sum examples/wasm/
COPY instrument/grpcprobe/go.mod instrument/grpcprobe/go.sum instrument/grpcprobe/
COPY instrument/otelprobe/go.mod instrument/otelprobe/go.sum instrument/otelprobe/
COPY internal/test/go.mod internal/test/go.sum internal/test/
RUN go mod download
COPY . .
RUN scripts/lib/modules.sh

FROM toolchain AS build
RUN CGO_ENABLED=0 go build -trimpath -ldflags=-s -o /hello ./examples/hello

# No libc, no shell, no /tmp. The program creates the directory of the probes, where
# every version of bpftrace finds them by the process; in memory, which would do as well,
# 0.25 and later find them by the path alone.
FROM scratch AS hello
ENV STAPSDT_DIR=/probes
COPY --from=build /hello /hello
ENTRYPOINT ["/hello"]

# As a user who may not attach: what needs root is skipped.
FROM toolchain AS test
RUN useradd --create-home tester && chown -R tester /stapsdt /go
USER tester
RUN scripts/test.sh
