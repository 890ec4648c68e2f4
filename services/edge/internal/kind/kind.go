// Package kind describes pastes, quick pastes and files: their names, addresses and quota keys, and the rules of their folds.
package kind

import (
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/plan"
)

// Kind is one of the three.
type Kind struct {
	fold.Policy
	Name, One string // "pastes", "paste"
	Text      bool   // false: bytes
	Page      string // path of an item's public page, before the id
	API       string // path of the endpoints

	// What requests are counted by; unspecified where a kind has no such request or does not meter it.
	Create, Read, Update, Delete, List, Versions plan.QuotaKey
}

// AutoLanguage as the language of a create or an update stands for the one that is detected from the title and the content.
const AutoLanguage = "auto"

// All lists the kinds, in the order of pages.
func All() []*Kind { return []*Kind{Pastes(), QuickPastes(), Files()} }

// Pastes are created through the developer API.
func Pastes() *Kind {
	return &Kind{
		Policy: fold.Pastes(), Name: "pastes", One: "paste", Text: true, Page: "/p/", API: "/api/dev/pastes",
		Create: plan.PastesCreate, Read: plan.PastesGet, Update: plan.PastesUpdate, Delete: plan.PastesDelete,
	}
}

// QuickPastes are created from terminals and the landing page too.
func QuickPastes() *Kind {
	return &Kind{
		Policy: fold.QuickPastes(), Name: "quick pastes", One: "quick paste", Text: true, Page: "/q/", API: "/api/dev/paste-lite",
		Create: plan.LiteCreate, Read: plan.LiteGet, Update: plan.LiteUpdate, Delete: plan.LiteDelete, List: plan.LiteList,
	}
}

// Files are of any type and can't be edited.
func Files() *Kind {
	return &Kind{
		Policy: fold.Files(), Name: "files", One: "file", Page: "/f/", API: "/api/dev/files",
		Create: plan.FilesUpload, Read: plan.FilesGet, Delete: plan.FilesDelete, List: plan.FilesList,
	}
}
