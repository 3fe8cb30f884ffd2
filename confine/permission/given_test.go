package permission_test

import (
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

// TestRunsGiven: no answer makes a rule for a program that runs what it reads or is given.
func TestRunsGiven(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]bool{
		"Bash": true, "*": true, "Bash(sh)": true, "Bash(bash)": true, "Bash(/bin/sh)": true, "Bash(bash -s)": true,
		"Bash(bash -)": true, "Bash(zsh)": true, "Bash(sh -c 'make test')": true, "Bash(bash /dev/stdin)": true,
		"Bash(python -)": true, "Bash(python3)": true, "Bash(python3.12 -)": true, "Bash(python3:*)": true,
		"Bash(python3 -c 'print(1)')": true, "Bash(python3 -Bc 'print(1)')": true, "Bash(python3 -u)": true,
		"Bash(python -m code)": true, "Bash(node)": true, "Bash(node -)": true, "Bash(node -e 1)": true,
		"Bash(node --eval=1)": true, "Bash(ruby -e 1)": true, "Bash(perl -ne print)": true, "Bash(php -r 1)": true,
		"Bash(deno run -)": true, "Bash(deno eval 1)": true, "Bash(bun run -)": true, "Bash(bun -e 1)": true,
		"Bash(Rscript -e 1)": true, "Bash(xargs rm)": true, "Bash(xargs)": true, "Bash(env FOO=1 make)": true,
		"Bash(env:*)": true, "Bash(sudo apt update)": true, "Bash(sudo:*)": true, "Bash(doas x)": true,
		"Bash(ssh build make)": true, "Bash(docker exec web sh)": true, "Bash(docker run x)": true,
		"Bash(podman compose exec web ls)": true, "Bash(kubectl exec pod -- ls)": true, "Bash(eval 'x')": true,
		"Bash(source /dev/stdin)": true, "Bash(. /dev/fd/0)": true, "Bash(nohup sh)": true, "Bash(timeout 5 bash -s)": true,
		"Bash(nice -n 5 python -)": true, "Bash(time xargs sh)": true, "Bash(make -f -)": true, "Bash(make -f- all)": true,
		"Bash(make --file=/dev/stdin)": true, "Bash(make --eval=x)": true, "Bash(npx cowsay)": true,
		"Bash(npx -y cowsay)": true, "Bash(uvx ruff)": true, "Bash(bunx x)": true, "Bash(pnpm dlx x)": true,
		"Bash(npm exec x)": true, "Bash(npm create vite)": true, "Bash(psql -c '\\! sh')": true, "Bash(psql)": true,
		"Bash(mysql -e '\\! sh')": true, "Bash(sqlite3 x.db)": true, "Bash(awk 'BEGIN{system(\"x\")}')": true,
		"Bash(vim -c ':!x')": true, "Bash(git -c alias.x='!sh' x)": true, "Bash(git bisect run make)": true,
		"Bash(git submodule foreach ls)": true, "Bash(git rebase -x make main)": true, "Bash(find . -exec sh -c x ';')": true,
		"Bash(parallel)": true, "Bash(watch ls)": true, "Bash(at now)": true, "Bash(busybox sh)": true,
		"Bash(tar -xf a --to-command=sh)": true, "Bash(uv run -)": true, "Bash(uv run python -c 1)": true,
		"Bash(gdb -ex x)": true, "Bash(command sh)": true, "Bash(exec sh)": true, "Bash(setsid sh)": true,
		"Bash(crontab -)": true, "Bash(ex -s)": true, "Bash(strace sh)": true, "Bash(FOO=1 sh)": true,

		"Bash(perl5.36)": true, "Bash(ksh93)": true, "Bash(bash5)": true, "Bash(lua5.4 -)": true, "Bash(php8.2 -r 1)": true,
		"Bash(yash)": true, "Bash(octave)": true, "Bash(octave --eval=1)": true, "Bash(clisp)": true, "Bash(redis-cli)": true,
		"Bash(go run -)": true, "Bash(go run /dev/stdin)": true, "Bash(java /dev/stdin)": true,
		"Bash(jq -f /dev/fd/0 x)": true, "Bash(tcc -run -)": true, "Bash(kubectl apply -f -)": true, "Bash(kubectl create -f-)": true,
		"Bash(ifne sh)":        true,
		"Bash(nvm exec 20 sh)": true, "Bash(gcloud compute ssh x)": true, "Bash(aws ssm start-session --target x)": true,
		"Bash(rails runner -)": true, "Bash(bin/rails c)": true, "Bash(php artisan tinker)": true, "Bash(dotnet fsi)": true,
		"Bash(python manage.py shell)": true, "Bash(yarn node)": true, "Bash(gsed -f - x)": true, "Bash(ftp)": true,

		"Bash(octave x.m)": false, "Bash(redis-cli ping)": false, "Bash(kubectl apply -f x.yaml)": false,
		"Bash(nvm use 20)": false, "Bash(gcloud compute instances list)": false, "Bash(aws s3 ls)": false, "Bash(rails test)": false,
		"Bash(gsed -i s/a/b/ f)":         false,
		"Bash(python manage.py migrate)": false, "Bash(php artisan migrate)": false, "Bash(dotnet fsi x.fsx)": false,
		"Bash(perl5.36 x.pl)": false, "Bash(yarn build)": false,

		"Bash(bash build.sh)": false, "Bash(sh ./x.sh a -)": false, "Bash(python3 x.py)": false,
		"Bash(python3 -m pytest -q)": false, "Bash(python3 --version)": false, "Bash(node server.js -e)": false,
		"Bash(source venv/bin/activate)": false, "Bash(make test)": false, "Bash(make -f x.mk)": false,
		"Bash(npm run build)": false, "Bash(npm run build:*)": false, "Bash(npm install left-pad)": false,
		"Bash(npx prettier --write .)": false, "Bash(uv run pytest)": false, "Bash(poetry run pytest -q)": false,
		"Bash(bundle exec rspec)": false, "Bash(go test ./...)": false, "Bash(go run ./x)": false,
		"Bash(git commit -m x)": false, "Bash(git push --force)": false, "Bash(rm -rf dist)": false,
		"Bash(docker compose up -d)": false, "Bash(docker build .)": false, "Bash(timeout 5 npm test)": false,
		"Bash(curl -s http://x)": false, "Bash(tar -xf a.tar)": false, "Bash(deno run x.ts)": false,
		"Bash(bun run build)": false, "Bash(sed -i s/a/b/ f)": false, "Bash(cargo test)": false,
		"Bash(find . -name x -delete)": false, "Bash(kubectl get pods)": false, "Bash(Rscript x.R)": false,
		"Edit(//w/.git/config)": true, "Edit(/.git/hooks/x)": true, "Write(//w/sub/.git)": true,
		"Edit(//w/r.git/config)": true, "Edit(//w/.GIT/config)": true, "Edit(//w/.git/modules/m/config)": true, "Edit(//w/.gitignore)": false,
		"Edit(//w/.github/x)": false, "Edit(//w/x)": false, "Edit": false, "Edit(src/**)": false,
		"Read(//w/.git/config)": false, "Read(//x)": false, "WebFetch(domain:x.org)": false, "mcp__a__b": false,
	} {
		r, err := permission.ParseRule(rule, permission.Kept)
		if err != nil {
			t.Errorf("%s: %v", rule, err)
		} else if r.RunsGiven() != want {
			t.Errorf("%s: %v", rule, !want)
		}
	}
}
