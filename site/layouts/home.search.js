window.pages = [
{{- range site.RegularPages }}
{{ dict "title" (partial "title.html" .) "url" (strings.TrimPrefix (relURL "/") .RelPermalink) "text" (.Plain | htmlUnescape) | jsonify }},
{{- end }}
];
