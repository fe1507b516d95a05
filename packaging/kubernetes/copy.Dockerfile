# An image that copies the library into a volume, for pods whose own image knows nothing of masu:
#   docker build -t masu-copy:0.1.0 -f packaging/kubernetes/copy.Dockerfile .
FROM busybox:1.37-musl
COPY --from=masu /packages/libmasu.so.0 /masu/
CMD ["cp", "/masu/libmasu.so.0", "/shared/libmasu.so.0"]
