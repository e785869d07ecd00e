{{/* The labels by which the pods of a release are found. */}}
{{- define "openenv.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* What every object of a release is called and labelled. */}}
{{- define "openenv.metadata" -}}
name: {{ .Release.Name | quote }}
namespace: {{ .Release.Namespace | quote }}
labels:
  {{- include "openenv.labels" . | nindent 2 }}
{{- end }}

{{/* What every object of a release is labelled. */}}
{{- define "openenv.labels" -}}
{{- include "openenv.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
{{- end }}

{{/* How fast servers come and go. */}}
{{- define "openenv.behavior" -}}
scaleUp:
  stabilizationWindowSeconds: 0
  policies:
    - {type: Percent, value: 100, periodSeconds: 30}
scaleDown:
  stabilizationWindowSeconds: 600
  policies:
    - {type: Pods, value: 1, periodSeconds: 120}
{{- end }}
