"""Everyday words of Spanish, German, French, Ukrainian, Chinese and Japanese, and the English word that means the same.

Single words only (GTW-21): verbs of every day, and common nouns of work with data, files, time and people.
"""

from __future__ import annotations

COLUMNS = ("en", "es", "de", "fr", "uk", "zh", "ja")
ROWS = """
delete | eliminar borrar elimina borra suprimir | löschen entfernen lösche entferne | supprimer effacer supprime enlever | видалити видали стерти прибрати | 删除 移除 清除 | 削除 消す 消して
read | leer obtener | lesen abrufen hole | lire obtenir récupérer | прочитати читати отримати | 读取 获取 | 読む 読み込 取得 読んで
show | mostrar muestra ver enseñar | anzeigen zeige zeigen sehen | afficher montrer voir montre | показати покажи подивитися | 显示 查看 展示 | 表示 見る 見せて 確認
list | listar enumerar lista | auflisten liste aufzählen | lister énumérer liste | перелічити список перелік | 列出 列表 | 一覧 リスト
find | encontrar buscar busca hallar | finden suchen suche finde | trouver chercher rechercher cherche recherche | знайти шукати знайди пошук | 查找 搜索 寻找 检索 查询 | 探す 検索 見つけ 探して
create | crear crea | erstellen anlegen erzeugen erstelle lege einrichten | créer crée | створити створи | 创建 新建 建立 | 作成 作る 作って
save | guardar guarda almacenar salvar | speichern speichere sichern ablegen | enregistrer sauvegarder stocker enregistre | зберегти збережи зберігати | 保存 存储 储存 | 保存 格納
write | escribir escribe | schreiben schreibe | écrire écris | записати писати | 写入 写 | 書く 書き込
add | añadir agregar añade agrega | hinzufügen füge | ajouter ajoute | додати додай | 添加 增加 追加 | 追加 加える
update | actualizar modificar cambiar editar actualiza | aktualisieren ändern bearbeiten aktualisiere | modifier changer actualiser mettre | оновити змінити редагувати онови | 更新 修改 更改 编辑 | 更新 変更 編集
replace | reemplazar sustituir | ersetzen ersetze austauschen | remplacer remplace | замінити заміни | 替换 更换 | 置換 置き換 交換
send | enviar mandar envía | senden schicken sende verschicken | envoyer envoie | надіслати відправити | 发送 发 | 送る 送信
publish | publicar publica | veröffentlichen | publier publie | опублікувати публікувати | 发布 | 公開 発行 配信
receive | recibir tomar recibe sacar | empfangen nehmen nimm holen | recevoir prendre prends reçois | взяти забрати одержати | 接收 领取 取出 | 受信 受け取 取り出
confirm | confirmar acusar | bestätigen bestätige quittieren | confirmer acquitter | підтвердити підтверди | 确认 | 承認 応答
complete | completar terminar finalizar acabar | abschließen beenden fertigstellen fertig | terminer finir achever finaliser | завершити закінчити | 完成 结束 | 完了 終える 終了
cancel | cancelar anular | abbrechen stornieren absagen | annuler abandonner | скасувати відмінити | 取消 中止 | 取り消 キャンセル 中止
stop | detener parar | stoppen anhalten | arrêter stopper | зупинити | 停止 | 停止 止める
pause | pausar suspender | pausieren unterbrechen | suspendre interrompre | призупинити пауза | 暂停 | 一時停止
resume | reanudar continuar | fortsetzen weiterführen | reprendre continuer | продовжити відновити | 恢复 继续 | 再開 続ける
start | iniciar empezar comenzar | starten beginnen anfangen | démarrer commencer débuter | почати розпочати запустити | 开始 启动 | 開始 始める
open | abrir abre | öffnen öffne | ouvrir ouvre | відкрити | 打开 | 開く 開ける
close | cerrar | schließen | fermer | закрити | 关闭 | 閉じる
move | mover trasladar | verschieben bewegen umziehen | déplacer bouger | перемістити пересунути | 移动 | 移動
rename | renombrar | umbenennen | renommer | перейменувати | 重命名 | 改名
copy | copiar copia | kopieren kopie | copier copie | скопіювати копія копіювати | 复制 拷贝 副本 | コピー 複製
upload | subir cargar sube | hochladen lade | téléverser charger téléverse | завантажити вивантажити | 上传 | アップロード
download | descargar bajar descarga | herunterladen | télécharger télécharge | скачати завантажити | 下载 | ダウンロード
count | contar cuántos cuántas | zählen anzahl wieviele viele | compter combien | порахувати скільки кількість | 计数 数量 多少 | 数える 件数 いくつ
calculate | calcular | berechnen rechnen | calculer | обчислити розрахувати | 计算 | 計算
sum | sumar suma | summe summieren addieren | somme additionner | сума підсумувати | 求和 总和 | 合計
average | promedio | durchschnitt mittelwert | moyenne | середнє середній | 平均 平均值 | 平均
compare | comparar | vergleichen | comparer | порівняти | 比较 | 比較
merge | fusionar combinar unir | zusammenführen vereinen | fusionner fusion | об'єднати злити | 合并 | 結合 統合
filter | filtrar | filtern | filtrer | фільтрувати відфільтрувати | 过滤 筛选 | 絞り込
sort | ordenar | sortieren | trier | сортувати відсортувати | 排序 | 並べ替え
follow | seguir sigue suscribirse | folgen verfolgen beobachten abonnieren | suivre observer abonner | стежити слідкувати підписатися | 跟踪 订阅 关注 | 追跡 購読
watch | vigilar observar | überwachen | surveiller | спостерігати | 监视 监控 | 監視
check | comprobar verificar revisar | prüfen überprüfen | vérifier contrôler | перевірити | 检查 | 確認 調べる
explain | explicar explica | erklären erkläre beschreiben | expliquer explique décrire | пояснити описати | 解释 说明 | 説明
allow | permitir autorizar conceder | erlauben gewähren berechtigen | autoriser permettre accorder | дозволити надати | 允许 授权 授予 | 許可 与える
revoke | revocar retirar | widerrufen entziehen | révoquer retirer | відкликати | 撤销 吊销 | 取り消し 失効
register | registrar | registrieren anmelden | inscrire | зареєструвати | 注册 登记 | 登録
schedule | programar planificar agendar | planen einplanen | planifier programmer | запланувати розклад | 安排 计划 定时 | 予約 予定 スケジュール
retry | reintentar | wiederholen | réessayer | повторити | 重试 | 再試行
return | devolver regresar | zurückgeben zurück | rendre retourner retour | повернути | 返回 退回 归还 | 返す 戻す
renew | renovar prolongar extender | verlängern erneuern | renouveler prolonger | подовжити | 续期 延长 | 延長 更新
wait | esperar esperando | warten wartet wartend | attendre attente | чекати очікувати | 等待 | 待つ 待ち
process | procesar procesa | verarbeiten | traiter | обробити опрацювати | 处理 | 処理
reset | restablecer reiniciar | zurücksetzen | réinitialiser | скинути | 重置 | リセット
restore | restaurar | wiederherstellen | restaurer | відновити | 还原 恢复 | 復元
verify | validar | verifizieren | valider | звірити | 验证 核实 | 検証
free | liberar libre | freigeben frei freien | libérer libre | звільнити вільний вільне | 释放 空闲 | 解放 空き
clean | limpiar | bereinigen aufräumen säubern | nettoyer | очистити почистити | 清理 | 掃除 整理
pay | pagar pago | zahlen bezahlen zahlung | payer paiement | платити оплата платіж | 支付 付款 | 支払
buy | comprar | kaufen | acheter | купити | 购买 买 | 購入 買う
order | pedido pedidos | bestellung bestellungen auftrag | commande commandes | замовлення | 订单 | 注文
call | llamar llamada | aufrufen anrufen | appeler appel | викликати дзвінок | 调用 | 呼び出
run | ejecutar ejecuta | ausführen | exécuter lancer | виконати | 运行 执行 | 実行
connect | conectar vincular enlazar | verbinden verknüpfen | connecter relier lier | з'єднати пов'язати | 连接 关联 | 接続 つなぐ
limit | límite limitar límites | grenze begrenzen limits | limite limiter limites | ліміт обмежити обмеження | 限制 上限 | 制限 上限
assign | asignar | zuweisen zuordnen | attribuer assigner affecter | призначити | 分配 指定 | 割り当て
document | documento documentos | dokument dokumente | document documents | документ документи документа | 文档 | 文書 ドキュメント
file | archivo fichero archivos ficheros | datei dateien | fichier fichiers | файл файли файлу | 文件 | ファイル
attachment | adjunto adjuntos | anhang anhänge | pièce jointe | вкладення | 附件 | 添付
folder | carpeta directorio | ordner verzeichnis | dossier répertoire | папка тека каталог | 文件夹 目录 | フォルダ
message | mensaje mensajes | nachricht nachrichten | messages | повідомлення | 消息 信息 | メッセージ
queue | cola colas | warteschlange warteschlangen schlange | file d'attente | черга черги черзі чергу | 队列 | キュー 待ち行列
task | tarea tareas | aufgabe aufgaben | tâche tâches | завдання задача задачі | 任务 | タスク 作業
job | trabajo trabajos | auftrag aufträge arbeit | travail travaux emploi | робота роботу | 作业 工作 | ジョブ 仕事
event | evento eventos | ereignis ereignisse termin | événement événements évènement | подія події подію | 事件 活动 | イベント
stream | flujo flujos corriente | strom datenstrom | flux | потік потоку потоки | 流 事件流 数据流 | ストリーム
topic | tema temas tópico | thema themen | sujet thème | тема теми тему | 主题 | トピック
subscription | suscripción suscripciones | abonnement abonnements | abonnement abonnements | підписка підписку підписки | 订阅 | 購読 サブスクリプション
group | grupo grupos | gruppe gruppen | groupe groupes | група групу групи | 组 群组 | グループ
collection | colección colecciones | sammlung sammlungen | collection collections | колекція колекції колекцію | 集合 | コレクション
table | tabla tablas | tabelle tabellen | tableau | таблиця таблиці таблицю | 表 表格 | テーブル 表
row | fila filas | zeile zeilen | ligne lignes | рядок рядки рядків | 行 | 行
column | columna columnas | spalte spalten | colonne colonnes | стовпець колонка | 列 | 列
record | registro registros | datensatz datensätze eintrag | enregistrement enregistrements | запис записи | 记录 | レコード 記録
field | campo campos | feld felder | champs | поле поля | 字段 | フィールド 項目
value | valor valores | wert werte | valeur valeurs | значення | 值 数值 | 値
key | clave claves llave | schlüssel | clé clef clés | ключ ключі ключа | 密钥 键 钥匙 | キー 鍵
index | índice índices | verzeichnis | indice | індекс | 索引 | 索引 インデックス
database | basedatos | datenbank datenbanken | données | база бази базу | 数据库 | データベース
data | datos | daten | données | дані даних | 数据 | データ
graph | grafo grafos | graphen | graphe graphes | граф графі графа | 图 图谱 | グラフ
relation | relación relaciones | beziehung beziehungen | relation relations lien liens | зв'язок зв'язки відношення | 关系 | 関係
edge | arista aristas | kante kanten | arête arêtes | ребро ребра | 边 | エッジ 辺
node | nodo nodos | knoten | nœud nœuds | вузол вузла вузли | 节点 | ノード
path | camino ruta caminos | pfad weg | chemin chemins | шлях шляху | 路径 | 経路 パス
shortest | corto corta | kürzester kürzesten kürzeste | courte | найкоротший | 最短 | 最短
neighbour | vecino vecinos | nachbar nachbarn | voisin voisins | сусід сусіди сусідні | 邻居 相邻 | 隣接 近隣
series | serie | reihe zeitreihe messreihe | série séries | ряд ряду серія | 序列 时序 | 系列 時系列
sample | muestra muestras | messwert probe | échantillon échantillons | зразок вимірювання | 样本 采样 | サンプル
measurement | medición mediciones medida | messung messungen messwerte messwert | mesure mesures | вимір виміри вимірювання | 测量 测量值 | 測定 計測
temperature | temperatura temperaturas | temperatur temperaturen | température températures | температура температури | 温度 气温 | 温度 気温
sensor | sensor sensores | sensor sensoren | capteur capteurs | датчик датчика сенсор | 传感器 | センサー
last | último última últimos | letzter letzte letzten | dernier dernière derniers | останній останнє останні | 最后 | 最後 最終
latest | reciente recientes | neueste neuester aktuell neuesten | récent récente récents | найновіший найновіше свіжий | 最新 最近 | 最新 最近
next | siguiente próximo siguientes | nächste nächsten nächster nächstes | suivant prochain prochaine suivante | наступний наступне наступну наступні | 下一个 下一条 下一 | 次 次の
first | primero primera | erster erste ersten | premier première | перший перша | 第一 | 最初
old | viejo antiguo viejos antiguos antiguas | alte alten | vieux ancien anciens anciennes | старий старі старих | 旧 老 旧的 | 古い
new | nuevo nueva nuevos | neu neue neuen neuer neues | nouveau nouvelle nouveaux | новий нова нову нові | 新 新的 | 新しい 新規
big | grande grandes | groß große großen großes | gros grande | великий велика великого | 大 大型 大的 | 大きい 大きな
size | tamaño | größe | taille | розмір | 大小 尺寸 | サイズ 大きさ
part | parte partes trozo | teil teile stück | partie morceau parties | частина частину частини | 部分 分片 | 部分 パート
range | rango intervalo | bereich abschnitt | plage intervalle | діапазон проміжок | 范围 区间 | 範囲
byte | byte bytes | byte bytes | octet octets | байт байти | 字节 | バイト
version | versión versiones | version versionen fassung | version versions | версія версію версії | 版本 | バージョン 版
revision | revisión revisiones | revision | révision | ревізія | 修订 | 改訂 リビジョン
history | historial historia | verlauf geschichte historie | historique histoire | історія історію історії | 历史 | 履歴
change | cambio cambios | änderung änderungen | changement changements modification modifications | зміна зміни змін | 变更 变化 更改 | 変更 変化
user | usuario usuarios | benutzer nutzer | utilisateur utilisateurs | користувач користувача користувачі | 用户 | ユーザー 利用者
agent | agente agentes | agent agenten | agent agents | агент агента агенту | 代理 智能体 | エージェント
right | permiso permisos derecho derechos | recht rechte berechtigung berechtigungen | droit droits | право права дозвіл | 权限 | 権限
access | acceso accesos | zugriff zugang | accès | доступ доступу | 访问 存取 | アクセス
password | contraseña | passwort kennwort | mot-de-passe | пароль | 密码 | パスワード
credential | credencial credenciales | zugangsdaten | identifiants | облікові | 凭据 凭证 | 認証情報 資格情報
server | servidor servidores | server | serveur serveurs | сервер сервера | 服务器 | サーバー
cluster | clúster | cluster verbund | grappe cluster | кластер кластера | 集群 | クラスタ クラスター
leader | líder | leiter anführer | leader | лідер лідера | 领导者 主节点 | リーダー
shard | fragmento | scherbe | fragment | шард | 分片 | シャード
partition | partición particiones | partition partitionen | partition partitions | розділ партиція | 分区 | パーティション
status | estado | zustand status | état statut | стан статус | 状态 | 状態 状況 ステータス
healthy | sano saludable salud | gesund gesundheit | santé sain | здоровий | 健康 正常 | 健全 正常
backup | respaldo copia seguridad | sicherung sicherungskopie datensicherung | sauvegarde | резервну резервна бекап резервне | 备份 | バックアップ
disk | disco | festplatte platte speicherplatz | disque | диск диска | 磁盘 硬盘 | ディスク
space | espacio | platz speicherplatz | espace | місце простір | 空间 | 容量 空き容量
memory | memoria | speicher arbeitsspeicher | mémoire | пам'ять | 内存 | メモリ
overloaded | sobrecargado saturado sobrecarga | überlastet überlastung | surchargé saturé | перевантажений | 过载 超载 | 過負荷
query | consulta consultas | abfrage abfragen anfrage | requête requêtes | запит запиту запити | 查询 | クエリ 問い合わせ
search | búsqueda | suche volltextsuche | recherche | пошук пошуку | 搜索 | 検索
word | palabra palabras | wort wörter | mot mots | слово слова | 词 单词 | 単語 言葉
text | texto | text texte | texte | текст тексту | 文本 文字 | テキスト 文章
similar | similar similares parecido parecidos | ähnlich ähnliche ähnlichen | similaire similaires semblable | подібний схожий схожі подібні | 相似 类似 | 類似 似た
result | resultado resultados | ergebnis ergebnisse | résultat résultats | результат результати | 结果 | 結果
page | página páginas | seite seiten | page pages | сторінка сторінку | 页 页面 | ページ
condition | condición condiciones | bedingung bedingungen | condition conditions | умова умови | 条件 | 条件
time | tiempo hora | zeit uhrzeit | temps heure | час часу | 时间 | 時間 時刻
hour | horas hora | stunde stunden | heures heure | година години годину | 小时 每小时 | 毎時 時間ごと
day | día días | tag tage | jour jours journée | день дні днів | 天 日 | 日 毎日
date | fecha fechas | datum | date dates | дата дату | 日期 | 日付
today | hoy | heute | aujourd'hui | сьогодні | 今天 | 今日
tomorrow | mañana | morgen | demain | завтра | 明天 | 明日
yesterday | ayer | gestern | hier | вчора | 昨天 | 昨日
minute | minuto minutos | minute minuten | minute minutes | хвилина хвилини | 分钟 | 分
reminder | recordatorio | erinnerung | rappel | нагадування | 提醒 | リマインダー
reading | lectura lecturas | ablesung | relevé | показник показник | 读数 | 読み取り
customer | cliente clientes | kunde kunden | client clients | клієнт клієнта клієнти | 客户 顾客 | 顧客
company | empresa compañía | firma unternehmen | entreprise société | компанія фірма | 公司 企业 | 会社 企業
person | persona personas | person personen mensch | personne personnes | людина особа люди | 人 人员 | 人
name | nombre nombres | name namen | nom noms | ім'я назва | 名称 名字 | 名前
address | dirección | adresse | adresse | адреса | 地址 | 住所 アドレス
email | correo | e-mail | courriel | пошта лист | 邮件 邮箱 | メール
contact | contacto contactos | kontakt kontakte | contact contacts | контакт контакти | 联系人 | 連絡先
invoice | factura facturas | rechnung rechnungen | facture factures | рахунок рахунки | 发票 | 請求書
price | precio precios | preis preise | prix | ціна ціни | 价格 | 価格 値段
money | dinero | geld | argent | гроші | 钱 金额 | お金 金額
weather | clima tiempo | wetter | météo | погода | 天气 | 天気
storm | tormenta tormentas | sturm gewitter | tempête orage | шторм буря | 风暴 | 嵐 暴風
city | ciudad | stadt | ville | місто | 城市 | 都市
flight | vuelo vuelos | flug flüge | vols | рейс політ | 航班 | 便 フライト
meeting | reunión reuniones | besprechung treffen sitzung | réunion réunions | зустріч нарада | 会议 | 会議
breakfast | desayuno | frühstück | petit déjeuner déjeuner | сніданок | 早餐 | 朝食
lunch | almuerzo | mittagessen | déjeuner | обід | 午餐 | 昼食
image | imagen imágenes foto | bild bilder | image images photo | зображення фото картинка | 图片 图像 | 画像 写真
video | vídeo vídeos | video videos | vidéo vidéos | відео | 视频 | 動画
music | música | musik | musique | музика музику | 音乐 | 音楽
song | canción canciones | lied lieder | chanson chansons | пісня пісні | 歌曲 | 曲 歌
book | libro libros | buch bücher | livre livres | книга книги | 书 书籍 | 本 書籍
code | código | quelltext | code | код коду | 代码 | コード
error | error errores fallo | fehler | erreur erreurs échec | помилка помилки збій | 错误 故障 | エラー 失敗
failed | fallido fallida fallidos | fehlgeschlagen fehlgeschlagene | échoué échouée | невдалий невдале | 失败 | 失敗
dead | muerto muertos | tote toten unzustellbar | morts | мертві мертвих | 死信 | デッドレター
pending | pendiente pendientes | ausstehend ausstehende | attente | очікувані | 待处理 未处理 | 未処理 保留
unfinished | inacabado incompleta incompleto | unfertig angefangen | inachevé | незавершене незавершений | 未完成 | 未完了
progress | progreso avance | fortschritt | progression avancement | прогрес поступ | 进度 | 進捗 進行
position | posición | position stelle | position | позиція позицію | 位置 | 位置
beginning | principio comienzo inicio | anfang beginn | début commencement | початок початку | 开头 起点 | 先頭 初め
expired | caducado vencido expirado | abgelaufen abgelaufene | expiré périmé | прострочений застарілий | 过期 | 期限切れ
retention | retención | aufbewahrung | rétention conservation | зберігання | 保留 | 保持
effect | efecto efectos | wirkung auswirkung | effet effets | ефект наслідок | 效果 影响 | 効果
transaction | transacción transacciones | transaktion transaktionen | transaction transactions | транзакція транзакцію | 事务 交易 | トランザクション
vector | vector vectores | vektor vektoren | vecteur vecteurs | вектор вектори | 向量 | ベクトル
keyword | clave | stichwort schlagwort | mot-clé | ключове | 关键词 关键字 | キーワード
saga | saga sagas proceso | saga ablauf vorgang | saga processus | сага процес | 流程 长事务 | サーガ
timer | temporizador | zeitgeber wecker | minuterie minuteur | таймер | 定时器 计时器 | タイマー
overview | resumen panorama vista | übersicht überblick | aperçu vue synthèse | огляд | 概览 总览 | 概要 概観
"""
"""One meaning a line, in the order of COLUMNS; several words of a language stand side by side."""
