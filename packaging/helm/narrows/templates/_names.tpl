{{/* Names and labels. The release's name is the name of everything. */}}
{{- define "narrows.name" -}}
{{- .Release.Name | replace "." "-" -}}
{{- end -}}

{{- define "narrows.secret" -}}
{{- default (include "narrows.name" .) .Values.secret.name -}}
{{- end -}}

{{/* The files of the ConfigMap, as JSON. */}}
{{- define "narrows.files" -}}
{{- with .Values.configuration -}}
{{- $start := dict -}}
{{- if .text -}}{{- $_ := set $start .file .text -}}{{- end -}}
{{- merge $start .files | toJson -}}
{{- end -}}
{{- end -}}

{{- define "narrows.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{- end -}}
{{- end -}}
{{- end -}}

{{- define "narrows.selector" -}}
app.kubernetes.io/name: narrows
app.kubernetes.io/instance: {{ include "narrows.name" . }}
{{- end -}}

{{- define "narrows.labels" -}}
{{ include "narrows.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "narrows.metadata" -}}
name: {{ include "narrows.name" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "narrows.labels" . | nindent 2 }}
{{- end -}}
