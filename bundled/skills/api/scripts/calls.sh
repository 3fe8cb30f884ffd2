#!/bin/sh
# calls.sh [DIRECTORY] lists where a project calls an LLM's API: the SDKs, the endpoints, the models.
dir=${1:-.}
case $dir in -*) dir=./$dir ;; esac
[ -d "$dir" ] || { echo "calls.sh: $dir is not a directory" >&2; exit 2; }
cd "$dir" || exit 2

# files prints the names of source files, without what others wrote.
files() {
	find . -type d \( -name .git -o -name node_modules -o -name vendor -o -name .venv -o -name target -o -name dist \) -prune \
		-o -type f \( -name '*.go' -o -name '*.py' -o -name '*.js' -o -name '*.jsx' -o -name '*.mjs' -o -name '*.ts' \
		-o -name '*.tsx' -o -name '*.rs' -o -name '*.java' -o -name '*.kt' -o -name '*.rb' -o -name '*.php' -o -name '*.cs' \
		-o -name '*.sh' -o -name '*.yaml' -o -name '*.yml' -o -name '*.toml' -o -name '*.json' \) -print | sort
}

sdk='anthropic-sdk-go|@anthropic-ai/|(import|from) anthropic|openai-go|(import|from) openai|["'\'']openai["'\'']|google\.golang\.org/genai|@google/genai|google-genai|from google import genai|google\.generativeai|@google/generative-ai'
endpoint='api\.anthropic\.com|/v1/messages|api\.openai\.com|/v1/responses|/v1/chat/completions|generativelanguage\.googleapis\.com|:(stream)?[gG]enerateContent'
model='["'\''](anthropic/|openai/|google/|models/)?(claude-[a-z0-9.-]+|gpt-[0-9][a-z0-9.-]*|o[134](-mini|-pro)?|gemini-[0-9][a-z0-9.-]*)["'\'']'

found=0
# list prints the places of a pattern: its title, the pattern, how many at most.
list() {
	hits=$(files | tr '\n' '\0' | xargs -0 grep -nHoE -- "$2" 2>/dev/null | head -n "$3")
	[ -n "$hits" ] || return
	found=1
	printf '%s\n%s\n' "## $1" "$hits" | sed 's/^\.\///'
}
list "SDKs" "$sdk" 60
list "endpoints" "$endpoint" 60
list "models" "$model" 60
[ $found = 1 ] || { echo "no call of Anthropic, OpenAI or Google was found in $dir"; exit 0; }
versions=$(for f in go.mod package.json requirements.txt pyproject.toml Cargo.toml; do
	[ -f "$f" ] && grep -nHE 'anthropic|openai|genai|generative' "$f"
done)
[ -z "$versions" ] || printf '%s\n%s\n' "## versions" "$versions"
exit 0
