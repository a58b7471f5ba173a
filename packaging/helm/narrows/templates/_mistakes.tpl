{{/* What the schema cannot see: values that contradict each other. */}}
{{- define "narrows.mistakes" -}}
{{- $start := .Values.configuration.file -}}
{{- if and .Values.configuration.text (hasKey .Values.configuration.files $start) -}}
{{- fail (printf "%s is configuration.text, and is in configuration.files" $start) -}}
{{- end -}}
{{- $files := include "narrows.files" . | fromJson -}}
{{- $secret := .Values.secret.files -}}
{{- range $name, $text := $secret -}}
{{- if hasKey $files $name -}}
{{- fail (printf "%s is in the configuration and in secret.files" $name) -}}
{{- end -}}
{{- end -}}
{{- if and $secret (not (hasKey $files $start)) (not (hasKey $secret $start)) -}}
{{- fail (printf "configuration.file: neither the configuration nor secret.files has %s" $start) -}}
{{- end -}}
{{- $text := default (get $secret $start) (get $files $start) -}}
{{- $line := regexFind "(?m)^\\s*drain_timeout\\s*[=:]\\s*[0-9]+" $text -}}
{{- $seconds := .Values.configuration.drainTimeoutSeconds | int -}}
{{- if and $text (ne (default "30" (regexFind "[0-9]+$" $line) | int) $seconds) -}}
{{- fail (printf "configuration.drainTimeoutSeconds is %d, which is not drain_timeout of %s (30 if it is absent)" $seconds $start) -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.enabled) -}}
{{- fail "metrics.serviceMonitor.enabled needs metrics.enabled" -}}
{{- end -}}
{{- end -}}
