# The packages, as an image that others copy from:
#   docker build -t masu -f packaging/docker/masu.Dockerfile .
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update -qq && \
    apt-get install --no-install-recommends -y binutils dpkg-dev make python3 && \
    rm -rf /var/lib/apt/lists/*
WORKDIR /masu
COPY . .
RUN packaging/deb --out /packages && \
    packaging/wheel --out /packages --from target/release && \
    strip -o /packages/libmasu.so.0 target/release/libmasu.so && \
    cp packaging/docker/masu-entrypoint /packages

FROM scratch
COPY --from=build /packages /packages
