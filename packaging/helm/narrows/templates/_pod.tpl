{{/* The pod, which is the same in the Deployment and in the StatefulSet. */}}
{{- define "narrows.pod" -}}
{{- $files := include "narrows.files" . | fromJson -}}
{{- $start := printf "/etc/narrows/%s" .Values.configuration.file -}}
metadata:
  labels:
    {{- include "narrows.selector" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # Other files are another pod: a change of values is a rolling update.
    checksum/configuration: {{ list $files .Values.secret.files | toJson | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  automountServiceAccountToken: false
  {{- with .Values.serviceAccountName }}
  serviceAccountName: {{ . }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  # preStop, drain_timeout, 5 seconds for transactions after it, and 20 to spare.
  terminationGracePeriodSeconds: {{ add .Values.preStopSeconds .Values.configuration.drainTimeoutSeconds 25 }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile:
      type: RuntimeDefault
  topologySpreadConstraints:
    {{- if .Values.topologySpreadConstraints }}
    {{- toYaml .Values.topologySpreadConstraints | nindent 4 }}
    {{- else }}
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "narrows.selector" . | nindent 10 }}
    {{- end }}
  {{- range $field := list "nodeSelector" "tolerations" "affinity" }}
  {{- with get $.Values $field }}
  {{ $field }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  containers:
    - name: narrows
      image: {{ include "narrows.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        {{- concat (list "-f" "-c" $start "-D" "/var/lib/narrows") .Values.extraArgs | toYaml | nindent 8 }}
      {{- with .Values.env }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - name: mysql
          containerPort: 6033
        {{- if .Values.adminService.enabled }}
        - name: admin
          containerPort: 6032
        {{- end }}
        {{- if .Values.metrics.enabled }}
        - name: metrics
          containerPort: {{ .Values.metrics.port }}
        {{- end }}
      startupProbe:
        exec:
          command: ["/usr/bin/narrows", "ping", "-c", {{ $start | quote }}]
        periodSeconds: 1
        timeoutSeconds: 5
        failureThreshold: 60
      readinessProbe:
        exec:
          command: ["/usr/bin/narrows", "ping", "-c", {{ $start | quote }}]
        periodSeconds: 5
        timeoutSeconds: 5
      # A worker process that hangs is replaced by its supervisor; this is for a supervisor that hangs too. The admin interface
      # answers also if max_connections clients are connected: killing them would not help.
      livenessProbe:
        exec:
          command: ["/usr/bin/narrows", "ping", "--admin", "-c", {{ $start | quote }}]
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      lifecycle:
        preStop:
          # Until no node sends new connections here.
          sleep:
            seconds: {{ .Values.preStopSeconds }}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: ["ALL"]
      volumeMounts:
        - name: configuration
          mountPath: /etc/narrows
          readOnly: true
        - name: data
          mountPath: /var/lib/narrows
  volumes:
    - name: configuration
      projected:
        defaultMode: 0440
        sources:
          {{- if $files }}
          - configMap:
              name: {{ include "narrows.name" . }}
          {{- end }}
          - secret:
              name: {{ include "narrows.secret" . }}
    {{- if not .Values.persistence.enabled }}
    # Lost with the pod: a new pod reads the files above. What administrators save with SQL belongs there too.
    - name: data
      emptyDir:
        sizeLimit: {{ .Values.dataSizeLimit }}
    {{- end }}
{{- end -}}
