package sdt_test

import "github.com/go-stapsdt/stapsdt/sdt"

var shop = sdt.ShopFile()
