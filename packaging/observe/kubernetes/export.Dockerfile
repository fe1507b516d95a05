# An image with the command masu, for the DaemonSet and the sidecar. It takes the packages from the image `masu`:
#   docker build -t masu-export:0.1.0 -f export.Dockerfile .
FROM debian:bookworm-slim
COPY --from=masu /packages/libmasu0_*.deb /packages/masu_*.deb /tmp/
RUN dpkg -i /tmp/libmasu0_*.deb /tmp/masu_*.deb && rm /tmp/libmasu0_*.deb /tmp/masu_*.deb
ENTRYPOINT ["masu", "export"]
CMD ["--listen=0.0.0.0:9464", "--no-profiles"]
