FROM python:3.13-slim
COPY --from=masu /packages/masu-*.whl /tmp/
RUN pip install --no-cache-dir /tmp/masu-*.whl && rm /tmp/masu-*.whl && \
    ln -s "$(python -c 'import masu; print(masu.library())')" /usr/local/lib/libmasu.so.0
COPY --from=masu /packages/masu-entrypoint /usr/local/bin/
WORKDIR /app
COPY . .
ENTRYPOINT ["masu-entrypoint"]
CMD ["python", "app.py"]
