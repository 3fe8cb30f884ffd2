// Command knack runs Agent Skills: see the package documentation of
// github.com/knack-agent/knack and `knack help`.
package main

import (
	"os"

	_ "github.com/knack-agent/knack/confine/sandbox/launcher"
	"github.com/knack-agent/knack/internal/program/cli"
)

func main() { os.Exit(cli.Main()) }
