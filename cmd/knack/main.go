// Command knack runs Agent Skills: see the package documentation of
// github.com/knack-agent/knack and `knack help`.
package main

import (
	"os"

	"github.com/knack-agent/knack/internal/frontend/cli"
	_ "github.com/knack-agent/knack/sandbox/launcher"
)

func main() { os.Exit(cli.Main()) }
