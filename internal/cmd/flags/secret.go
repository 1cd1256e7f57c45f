package flags

import (
	"bufio"
	"io"
	"os"
	"strings"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
)

// A Secret is a secret that a command is given: by the standard input, a file, or the environment, because
// everybody on the machine sees the command line.
type Secret struct {
	name  string
	stdin bool
	file  string
}

// Bind defines the flags NAME-stdin and NAMEFile.
func (s *Secret) Bind(cmd *cobra.Command, name, what string) {
	s.name = name
	cmd.Flags().BoolVar(&s.stdin, name+"-stdin", false, "read "+what+" from the first line of the standard input")
	cmd.Flags().StringVar(&s.file, name+"File", "", "read "+what+" from this file; without either flag it is taken from ["+EnvName(name)+"]")
}

// Read returns the secret, and whether there is one.
func (s *Secret) Read(cmd *cobra.Command) (secret string, given bool, err error) {
	switch {
	case s.stdin && s.file != "":
		return "", false, exit.Usage(errors.Errorf("--%s-stdin and --%sFile do not go together; give one of them", s.name, s.name))
	case s.stdin:
		secret, err = firstLine(cmd.InOrStdin())
	case s.file != "":
		var f *os.File
		if f, err = os.Open(s.file); err == nil {
			secret, err = firstLine(f)
			_ = f.Close() // it was only read
		}
	default:
		secret, given = os.LookupEnv(EnvName(s.name))
		return secret, given, nil
	}
	if err == nil && secret == "" {
		err = errors.New("it is empty")
	}
	return secret, err == nil, errors.WithMessagef(err, "--%s-stdin, --%sFile", s.name, s.name)
}

func firstLine(r io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(r, 1<<20)).ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return strings.TrimRight(line, "\r\n"), errors.WithStack(err)
}
