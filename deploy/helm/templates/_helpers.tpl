{{- /* An image: (list . "edge"). */}}
{{- define "quire.image" -}}
{{- $root := index . 0 -}}
{{ $root.Values.image.registry }}/{{ index . 1 }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}
{{- end }}

{{- /* The variables of a service's read models: (list . "paste"). */}}
{{- define "quire.store" -}}
{{- $root := index . 0 -}}{{- $service := index . 1 -}}
{{- if eq $root.Values.store "mongodb" -}}
- name: QUIRE_MONGO_URL
  valueFrom:
    secretKeyRef:
      key: QUIRE_MONGO_URL
      name: quire-{{ $service }}
- name: QUIRE_MONGO_DATABASE
  value: quire_{{ $service }}
{{- else -}}
- name: QUIRE_POSTGRES_URL
  valueFrom:
    secretKeyRef:
      key: QUIRE_POSTGRES_URL
      name: quire-{{ $service }}
{{- end }}
{{- end }}

{{- define "quire.storePort" -}}
{{ if eq .Values.store "mongodb" }}27017{{ else }}5432{{ end }}
{{- end }}

{{- /* Where pods run: (list . <values with nodeSelector, affinity, tolerations, priorityClassName>). */}}
{{- define "quire.scheduling" -}}
{{- $values := index . 1 -}}
{{- with (index . 0).Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- range $field := list "affinity" "nodeSelector" "priorityClassName" "tolerations" }}
{{- with index $values $field }}
{{ $field }}: {{ toJson . }}
{{- end }}
{{- end }}
{{- end }}
