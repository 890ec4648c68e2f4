// Command notices prints the licences and notices of all modules that programs are built from, with the standard library.
// Equal texts are printed once. It reads the module cache, for Linux on each architecture that images are built for.
//
//	notices [-dir folder] [-vendored folder] package...
//
// The folder of -vendored has a folder for each software that is in the programs and no module, named <name>-<version>, with its
// licences.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	dir := flag.String("dir", ".", "folder of the module or workspace of the packages")
	vendored := flag.String("vendored", "", "folder with the licences of software that is no module; empty: none")
	flag.Parse()
	if err := run(os.Stdout, *dir, *vendored, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, dir, vendored string, packages []string) error {
	if len(packages) == 0 {
		return errors.New("name the packages of the programs")
	}
	modules := map[string]*module{}
	for _, architecture := range []string{"amd64", "arm64"} {
		if err := list(modules, dir, architecture, packages); err != nil {
			return err
		}
	}
	if vendored != "" {
		if err := addVendored(modules, vendored); err != nil {
			return err
		}
	}
	texts := map[string][]string{} // what each text is the licence of
	var missing []string
	for name, m := range modules {
		found, err := m.licences()
		if err != nil {
			return err
		}
		if len(found) == 0 {
			missing = append(missing, name)
		}
		for file, text := range found {
			texts[text] = append(texts[text], name+": "+filepath.ToSlash(file))
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("no licence was found in %s", strings.Join(missing, ", "))
	}
	return write(out, texts)
}

// module is a module, or the standard library.
type module struct {
	root    string
	folders map[string]bool // with packages that are used, and those above them
}

// list adds the modules that the packages are built from.
func list(modules map[string]*module, dir, architecture string, packages []string) error {
	command := exec.Command("go", append([]string{"list", "-deps", "-json=Dir,Goroot,Module"}, packages...)...)
	command.Dir, command.Stderr = dir, os.Stderr
	command.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+architecture, "CGO_ENABLED=0")
	out, err := command.Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir    string
			Goroot bool
			Module *struct {
				Path, Version, Dir string
				Main               bool
				Replace            *struct{ Path, Version, Dir string }
			}
		}
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("go list: %w", err)
		}
		switch {
		case p.Goroot:
			root, err := standardLibrary(p.Dir)
			if err != nil {
				return err
			}
			modules["Go's standard library"] = &module{root: root, folders: map[string]bool{".": true}}
		case p.Module == nil || p.Module.Main:
		default:
			name, root := p.Module.Path+" "+p.Module.Version, p.Module.Dir
			if r := p.Module.Replace; r != nil {
				if r.Version == "" {
					continue // a folder of the project
				}
				name, root = r.Path+" "+r.Version, r.Dir
			}
			m := modules[name]
			if m == nil {
				m = &module{root: root, folders: map[string]bool{}}
				modules[name] = m
			}
			if err := m.use(p.Dir); err != nil {
				return err
			}
		}
	}
}

// addVendored adds the folders of a folder as modules.
func addVendored(modules map[string]*module, folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		at := strings.LastIndexByte(entry.Name(), '-')
		if !entry.IsDir() || at < 0 {
			return fmt.Errorf("%s is no folder with a name and a version", filepath.Join(folder, entry.Name()))
		}
		name := entry.Name()[:at] + " " + entry.Name()[at+1:]
		modules[name] = &module{root: filepath.Join(folder, entry.Name()), folders: map[string]bool{".": true}}
	}
	return nil
}

// standardLibrary is the folder above src.
func standardLibrary(dir string) (string, error) {
	for filepath.Base(dir) != "src" {
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("%s is not in the standard library", dir)
		}
		dir = parent
	}
	return filepath.EvalSymlinks(filepath.Dir(dir))
}

func (m *module) use(dir string) error {
	folder, err := filepath.Rel(m.root, dir)
	if err != nil {
		return err
	}
	for ; ; folder = filepath.Dir(folder) {
		m.folders[folder] = true
		if folder == "." {
			return nil
		}
	}
}

// licences returns the texts that concern what is used of the module, by file: licences, copyrights and notices. A module
// without such a file has them at the top of its source files.
func (m *module) licences() (map[string]string, error) {
	named := regexp.MustCompile(`(?i)(^|[-._])(un)?(licen[cs]es?|copying|copyright|notices?|patents)([-._].*)?$`)
	texts, headers := map[string]string{}, map[string]string{}
	for folder := range m.folders {
		entries, err := os.ReadDir(filepath.Join(m.root, folder))
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			source := filepath.Ext(entry.Name()) == ".go"
			if !entry.Type().IsRegular() || !source && !named.MatchString(entry.Name()) {
				continue
			}
			file := filepath.Join(folder, entry.Name())
			content, err := os.ReadFile(filepath.Join(m.root, file))
			if err != nil {
				return nil, err
			}
			text := strings.TrimSpace(strings.ReplaceAll(string(content), "\r\n", "\n"))
			if !source {
				texts[file] = text
			} else if header, _, _ := strings.Cut(text, "\n\n"); strings.Contains(header, "Copyright") {
				headers[file] = header
			}
		}
	}
	if len(texts) == 0 {
		return headers, nil
	}
	return texts, nil
}

const line = "--------------------------------------------------------------------------------"

// write prints the texts in the order of what they are of.
func write(out io.Writer, texts map[string][]string) error {
	type notice struct {
		of   []string
		text string
	}
	var notices []notice
	for text, of := range texts {
		slices.Sort(of)
		notices = append(notices, notice{of, text})
	}
	slices.SortFunc(notices, func(a, b notice) int { return slices.Compare(a.of, b.of) })
	var b bytes.Buffer
	fmt.Fprintln(&b, "Licences and notices of the software of others in these programs.")
	for _, n := range notices {
		fmt.Fprintf(&b, "\n%s\n%s\n%s\n\n%s\n", line, strings.Join(n.of, "\n"), line, n.text)
	}
	_, err := out.Write(b.Bytes())
	return err
}
