// Command sbom writes the software bill of materials of a Go program, as SPDX 2.3 in JSON: the modules that the linker recorded in it, with
// their versions and checksums.
//
//	sbom program document
//
// SOURCE_DATE_EPOCH is the time of creation in the document, so that the same program gives the same document.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom program document")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(program, document string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	out, err := os.Create(document)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	if err := json.Write(describe(info, filepath.Base(program), sum, time.Unix(seconds, 0)), out, json.Indent("  ")); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// describe returns the document of a program with this SHA-256.
func describe(info *debug.BuildInfo, name string, sum [sha256.Size]byte, created time.Time) *spdx.Document {
	program := spdx.Package{
		PackageName: name, PackageSPDXIdentifier: "Program", PrimaryPackagePurpose: "APPLICATION",
		PackageDownloadLocation: "NOASSERTION", PackageLicenseDeclared: "Apache-2.0", PackageLicenseConcluded: "Apache-2.0",
		PackageChecksums: []common.Checksum{{Algorithm: common.SHA256, Value: hex.EncodeToString(sum[:])}},
	}
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: name,
		DocumentNamespace: "https://spdx.org/spdxdocs/" + url.PathEscape(name) + "-" + hex.EncodeToString(sum[:]),
		CreationInfo: &spdx.CreationInfo{
			Created:  created.UTC().Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "quire-sbom"}},
		},
		Packages:      []*spdx.Package{&program},
		Relationships: []*spdx.Relationship{relate("DOCUMENT", "DESCRIBES", "Program")},
	}
	modules := append([]*debug.Module{{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}}, info.Deps...)
	for n, m := range modules {
		if m.Replace != nil {
			if m.Replace.Version == "" {
				continue // a folder of the project, which is in the program's own package
			}
			m = m.Replace
		}
		if m.Version == "(devel)" {
			continue // a module of the project's workspace
		}
		id := common.ElementID("Module-" + strconv.Itoa(n))
		doc.Packages = append(doc.Packages, describeModule(m, id))
		doc.Relationships = append(doc.Relationships, relate("Program", "CONTAINS", id))
	}
	return doc
}

// describeModule returns the package of a module. Its licence is in THIRD_PARTY_NOTICES.
func describeModule(m *debug.Module, id common.ElementID) *spdx.Package {
	p := &spdx.Package{
		PackageName: m.Path, PackageVersion: m.Version, PackageSPDXIdentifier: id,
		PackageDownloadLocation: "NOASSERTION", PackageLicenseDeclared: "NOASSERTION", PackageLicenseConcluded: "NOASSERTION",
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL,
			Locator: "pkg:golang/" + strings.ReplaceAll(url.PathEscape(m.Path), "%2F", "/") + "@" + url.PathEscape(m.Version),
		}},
	}
	if m.Sum != "" {
		p.PackageComment = "go.sum: " + m.Sum
	}
	return p
}

func relate(a common.ElementID, how string, b common.ElementID) *spdx.Relationship {
	return &spdx.Relationship{
		RefA: common.MakeDocElementID("", string(a)), RefB: common.MakeDocElementID("", string(b)), Relationship: how,
	}
}
