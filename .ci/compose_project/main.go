// Prints the project of a compose file as `docker compose` takes it, every profile included; refuses
// what it refuses. The loader's own command reads the model only, and so misses contradictions.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	text, err := load(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%s", text)
}

func load(files []string) ([]byte, error) {
	options, err := cli.NewProjectOptions(files, cli.WithProfiles([]string{"*"}))
	if err != nil {
		return nil, err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return nil, err
	}
	return project.MarshalYAML()
}
