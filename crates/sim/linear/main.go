// Command linear reads histories of conditional operations (one JSON object a line, from files or standard
// input) and says whether each key was one register, as if every operation had happened at one moment between
// its begin and its end. The checker is porcupine, so that not everything that judges us is ours.
//
// Exit code: 0 every key is linearizable, 1 some are not, 2 the input or the time did not do.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// patience bounds the search of one key: it is exponential in what is open at once.
const patience = time.Minute

// operation is one line. The empty text is "no object".
type operation struct {
	Key      string `json:"key"`
	Site     int    `json:"site"`
	Act      string `json:"act"`
	Expected string `json:"expected"`
	New      string `json:"new"`
	Answered string `json:"answered"`
	Read     string `json:"read"`
	Begun    int64  `json:"begun"`
	Ended    *int64 `json:"ended"`
}

// register is a compare-and-set by ETag. What was never answered may happen at any time after its begin: it is
// ordered at the end when nobody saw it, where it changes nothing that anybody reads.
var register = porcupine.Model{
	Init: func() interface{} { return "" },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		held, asked := state.(string), input.(operation)
		holds := held == asked.Expected
		next := asked.New // the empty text for a delete
		switch output.(string) {
		case "read":
			return held == asked.Read, held
		case "done":
			return holds, next
		case "missed":
			return !holds, held
		default:
			if holds && asked.Act != "get" {
				return true, next
			}
			return true, held
		}
	},
	DescribeOperation: func(input, output interface{}) string {
		asked := input.(operation)
		return fmt.Sprintf("%s %.8s -> %.8s%.8s: %s", asked.Act, asked.Expected, asked.New, asked.Read, output)
	},
}

func known(line operation) error {
	acts := map[string]bool{"get": true, "put": true, "delete": true}
	answers := map[string]bool{"read": true, "done": true, "missed": true, "unknown": true}
	open := line.Answered == "unknown"
	switch {
	case line.Key == "" || !acts[line.Act] || !answers[line.Answered]:
		return fmt.Errorf("an act or an answer that is none")
	case (line.Answered == "read") != (line.Act == "get" && !open):
		return fmt.Errorf("a %s cannot be answered with %s", line.Act, line.Answered)
	case (line.Act == "put") == (line.New == ""):
		return fmt.Errorf("a put has a new state, nothing else has")
	case (line.Ended == nil) != open:
		return fmt.Errorf("an operation has an end if it was answered, and only then")
	case !open && *line.Ended < line.Begun:
		return fmt.Errorf("it ends before it begins")
	}
	return nil
}

func read(from io.Reader, name string, keys map[string][]porcupine.Operation) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for number := 1; lines.Scan(); number++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var line operation
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return fmt.Errorf("%s:%d: %w", name, number, err)
		}
		if err := known(line); err != nil {
			return fmt.Errorf("%s:%d: %w", name, number, err)
		}
		end := int64(math.MaxInt64)
		if line.Ended != nil {
			end = *line.Ended
		}
		keys[line.Key] = append(keys[line.Key], porcupine.Operation{
			ClientId: line.Site, Input: line, Call: line.Begun, Output: line.Answered, Return: end,
		})
	}
	return lines.Err()
}

func files(names []string, keys map[string][]porcupine.Operation) error {
	if len(names) == 0 {
		return read(os.Stdin, "standard input", keys)
	}
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		err = read(file, name, keys)
		file.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// seen leaves out writes that were never answered and whose bytes nobody read. Each of them may have come to nothing: what is a
// register without them is one with them, ordered at the end. Most of what makes the search long is open for ever.
func seen(history []porcupine.Operation) []porcupine.Operation {
	read := map[string]bool{}
	for _, one := range history {
		read[one.Input.(operation).Read] = true
	}
	var left []porcupine.Operation
	for _, one := range history {
		asked := one.Input.(operation)
		if one.Output == "unknown" && asked.Act == "put" && !read[asked.New] {
			continue
		}
		left = append(left, one)
	}
	return left
}

// check says whether a key was a register; all of its history decides where a part does not.
func check(history []porcupine.Operation) porcupine.CheckResult {
	if porcupine.CheckOperationsTimeout(register, seen(history), patience) == porcupine.Ok {
		return porcupine.Ok
	}
	return porcupine.CheckOperationsTimeout(register, history, patience)
}

// judge checks every key and tells of each that is no register.
func judge(keys map[string][]porcupine.Operation) (wrong, undecided int) {
	names := make([]string, 0, len(keys))
	for name := range keys {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		switch check(keys[name]) {
		case porcupine.Illegal:
			wrong++
			fmt.Printf("not linearizable: %s\n", name)
			for _, one := range keys[name] {
				line, _ := json.Marshal(one.Input)
				fmt.Printf("    %s\n", line)
			}
		case porcupine.Unknown:
			undecided++
			fmt.Printf("undecided after %s: %s (%d operations)\n", patience, name, len(keys[name]))
		}
	}
	return wrong, undecided
}

func main() {
	keys := map[string][]porcupine.Operation{}
	if err := files(os.Args[1:], keys); err != nil {
		fmt.Fprintln(os.Stderr, "linear:", err)
		os.Exit(2)
	}
	counts, operations := map[string]int{}, 0
	for _, history := range keys {
		for _, one := range history {
			counts[one.Output.(string)]++
			operations++
		}
	}
	wrong, undecided := judge(keys)
	fmt.Printf("%d keys, %d operations (%d done, %d missed, %d read, %d unknown): %d keys not linearizable, %d undecided\n",
		len(keys), operations, counts["done"], counts["missed"], counts["read"], counts["unknown"], wrong, undecided)
	switch {
	case wrong > 0:
		os.Exit(1)
	case undecided > 0 || operations == 0:
		os.Exit(2)
	}
}
