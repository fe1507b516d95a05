{{/*
Four pieces for a chart's pod template: copy this file into its templates directory, and include them there.

      initContainers:
        {{- include "masu.initContainer" . | nindent 8 }}
      containers:
        - name: app
          env:
            {{- include "masu.env" . | nindent 12 }}
          volumeMounts:
            {{- include "masu.volumeMount" . | nindent 12 }}
      volumes:
        {{- include "masu.volume" . | nindent 8 }}

Values, all of them optional: masu.enabled (default true), masu.image, masu.conf.
*/}}
{{- define "masu.enabled" -}}
{{- if dig "masu" "enabled" true .Values.AsMap }}true{{ end -}}
{{- end }}

{{- define "masu.initContainer" -}}
{{- if include "masu.enabled" . -}}
- name: masu
  image: {{ dig "masu" "image" "masu-copy:0.1.0" .Values.AsMap }}
  volumeMounts:
    - {name: masu, mountPath: /shared}
  resources:
    requests: {cpu: 5m, memory: 4Mi}
    limits: {memory: 16Mi}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65534
    readOnlyRootFilesystem: true
    allowPrivilegeEscalation: false
    capabilities: {drop: [ALL]}
    seccompProfile: {type: RuntimeDefault}
{{- end }}
{{- end }}

{{- define "masu.env" -}}
{{- if include "masu.enabled" . -}}
- {name: LD_PRELOAD, value: /masu/libmasu.so.0}
- {name: MASU_CONF, value: {{ dig "masu" "conf" "policy:container" .Values.AsMap | quote }}}
{{- end }}
{{- end }}

{{- define "masu.volumeMount" -}}
{{- if include "masu.enabled" . -}}
- {name: masu, mountPath: /masu, readOnly: true}
{{- end }}
{{- end }}

{{- define "masu.volume" -}}
{{- if include "masu.enabled" . -}}
- name: masu
  emptyDir: {sizeLimit: 1Mi}
{{- end }}
{{- end }}
